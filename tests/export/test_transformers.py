"""The exported folder, loaded by the transformers library itself."""

import shutil

import pytest
import torch

from surefoot.export import from_transformers, to_transformers
from surefoot.model import Decoder, generate

transformers = pytest.importorskip("transformers", reason="the extra 'hf' is not installed")

CLASSES = {
    "LlamaForCausalLM": {"qk_norm": False},
    "Qwen3ForCausalLM": {},
    "ArceeForCausalLM": {"activation": "gelu", "qk_norm": False},
    "ApertusForCausalLM": {"activation": "gelu"},
    "StableLmForCausalLM": {"norm": "layernorm", "qk_norm": False},
    "Starcoder2ForCausalLM": {"norm": "layernorm", "activation": "gelu", "qk_norm": False},
    "Olmo2ForCausalLM": {"norm_placement": "reordered", "qk_norm_over": "width"},
    "Gemma2ForCausalLM": {"norm_placement": "sandwich", "qk_norm": False},
    "Gemma3ForCausalLM": {"norm_placement": "peri"},
    "MixtralForCausalLM": {"qk_norm": False, "experts": 4},
    "Qwen3MoeForCausalLM": {"experts": 4, "experts_per_token": 3},
    "OlmoeForCausalLM": {"experts": 3, "qk_norm_over": "width", "expert_capacity": 0.5},
}
VARIANTS = [
    {},
    {"kv_heads": 4, "rope_theta": 500.0, "norm_eps": 1e-3},
    {"tied_embeddings": True},
    {"tied_embeddings": True, "head_scale": 1.0},
    {"tied_embeddings": True, "head_scale": 3.0, "embedding_scale": 3.0},
    {"tied_embeddings": True, "embedding_scale": "sqrt_width", "head_scale": 0.5},
    {"embedding_scale": "sqrt_width", "head_scale": 2.0, "kv_heads": 1, "ff_width": 52},
]


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


# Every variant on one class, and on the others those that bear on norms, names and folding.
MATRIX = [("Qwen3ForCausalLM", variant) for variant in VARIANTS]
MATRIX += [(name, VARIANTS[i]) for name in CLASSES if name != "Qwen3ForCausalLM" for i in (1, 5, 6)]
MATRIX += [
    ("Gemma2ForCausalLM", {"attention_softcap": 1.5, "logit_softcap": 3.0}),
    ("Gemma2ForCausalLM", {"logit_softcap": 3.0, "tied_embeddings": True, "layer_scale": 0.4,
                           "embedding_scale": "sqrt_width", "head_scale": 1.0}),
    ("Gemma3ForCausalLM", {"logit_softcap": 3.0, "norm_placement": "sandwich"}),
    ("LlamaForCausalLM", {"sigma_reparam": True, "layer_scale": 0.4, "attention_scale": "mup",
                          "query_key_layer_scaling": True, "embedding_norm": True}),
    ("Olmo2ForCausalLM", {"layer_scale": 0.4, "attention_scale": 0.9, "sigma_reparam": True}),
    ("MixtralForCausalLM", {"layer_scale": 0.4, "sigma_reparam": True}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "variant"), MATRIX, ids=str)
def test_logits_there_and_back(name, variant, make_model, tokenizer_path, end_of_text, tmp_path):
    model = make_model(**(CLASSES[name] | variant)).eval()
    folder = to_transformers(model, tokenizer_path, tmp_path / "out", end_of_text)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert type(loaded).__name__ == name
    assert loaded.dtype == torch.float32
    tokens = torch.randint(300, (3, 32), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model(tokens)
        torch.testing.assert_close(loaded(tokens).logits, expected, rtol=0, atol=1e-4)

    architecture, state, path = from_transformers(folder)
    assert path.read_bytes() == tokenizer_path.read_bytes()
    scales = [model.architecture.input_factor, model.architecture.output_factor]
    if name.startswith("Gemma"):
        scales[0] /= 32**0.5
    normed = model.embedding_norm is not None
    assert architecture.tied_embeddings == (
        model.architecture.tied_embeddings and scales[0] == scales[1] and not normed
    )
    again = Decoder(architecture).eval()
    again.load_state_dict(state)
    with torch.no_grad():
        torch.testing.assert_close(again(tokens), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", CLASSES)
def test_what_the_library_saves_is_read(name, make_model, tokenizer_path, end_of_text, tmp_path):
    model = make_model(**CLASSES[name]).eval()
    folder = to_transformers(model, tokenizer_path, tmp_path / "out", end_of_text)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder)
    loaded.save_pretrained(tmp_path / "saved")
    shutil.copy(tokenizer_path, tmp_path / "saved" / "tokenizer.json")
    architecture, state, _ = from_transformers(tmp_path / "saved")
    ours = from_transformers(folder)
    assert architecture == ours[0]
    assert state.keys() == ours[1].keys()
    assert all(torch.equal(tensor, state[name]) for name, tensor in ours[1].items())


def test_generation_is_the_same(make_model, tokenizer_path, end_of_text, tmp_path):
    model = make_model()
    folder = to_transformers(model, tokenizer_path, tmp_path / "out", end_of_text)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder)
    prompt = torch.tensor([[5, 6, 7]])
    ours = generate(model, prompt, 12, sequence_length=32)
    assert end_of_text not in ours  # else theirs would stop there
    theirs = loaded.generate(prompt, max_new_tokens=12, do_sample=False)
    assert torch.equal(ours, theirs)
    assert loaded.generation_config.eos_token_id == end_of_text


@pytest.mark.parametrize("qk_norm", [False, True])
def test_tokenizer_round_trip(qk_norm, make_model, tokenizer_path, end_of_text, tmp_path):
    folder = to_transformers(
        make_model(qk_norm=qk_norm), tokenizer_path, tmp_path / "out", end_of_text
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = "\n\ndef f(x) :\n\treturn x , 'it' 's'  \n don 't é ☃ \r\n\n"
    tokens = tokenizer(text)["input_ids"]
    from tokenizers import Tokenizer

    assert tokens == Tokenizer.from_file(str(tokenizer_path)).encode(text).ids
    assert tokenizer.decode(tokens) == text
    assert tokenizer.eos_token_id == end_of_text
    assert tokenizer.decode([end_of_text], skip_special_tokens=True) == ""
    assert tokenizer.model_max_length == 32
