"""Folders that cannot be used are refused by name, and nothing in them runs."""

import json
import pickle
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from surefoot.errors import UsageError
from surefoot.export import FAMILIES, from_transformers, read_config, to_transformers
from surefoot.model import Decoder

BASE = {
    "llama": {},
    "qwen3": {"qk_norm": True},
    "arcee": {"activation": "gelu"},
    "apertus": {"activation": "gelu", "qk_norm": True},
    "stablelm": {"norm": "layernorm"},
    "starcoder2": {"norm": "layernorm", "activation": "gelu"},
    "olmo2": {"norm_placement": "reordered", "qk_norm": True, "qk_norm_over": "width"},
    "gemma2": {"norm_placement": "sandwich"},
    "gemma3_text": {"norm_placement": "sandwich", "qk_norm": True},
    "mixtral": {"experts": 3},
    "qwen3_moe": {"experts": 3, "qk_norm": True},
    "olmoe": {"experts": 3, "qk_norm": True, "qk_norm_over": "width"},
}


@pytest.fixture(scope="module")
def exported(make_model, tokenizer_path, end_of_text, tmp_path_factory):
    """One folder a class; copied by the tests, never changed."""
    root = tmp_path_factory.mktemp("exported")
    for kind, changes in BASE.items():
        model = make_model(**({"qk_norm": False} | changes))
        to_transformers(model, tokenizer_path, root / kind, end_of_text)
    return root


@pytest.fixture
def folder(exported, tmp_path):
    """A copy of a class's folder, with changed settings (None removes one)."""

    def make(kind="llama", **changes):
        path = tmp_path / kind
        shutil.copytree(exported / kind, path)
        config = json.loads((path / "config.json").read_text())
        assert config["model_type"] == kind
        for key, value in changes.items():
            config.pop(key, None) if value is ... else config.update({key: value})
        (path / "config.json").write_text(json.dumps(config))
        return path

    return make


def refused(folder, *parts):
    with pytest.raises(UsageError) as caught:
        from_transformers(folder)
    message = str(caught.value)
    for part in (str(folder), *parts):
        assert part in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("kind", "changes", "named"),
    [
        ("llama", {"attention_bias": True}, "attention_bias = True (only False)"),
        ("llama", {"mlp_bias": True}, "mlp_bias"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act = 'gelu' (only 'silu')"),
        ("llama", {"attention_dropout": 0.1}, "attention_dropout = 0.1"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "of type 'linear'"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "'yarn'"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        ("llama", {"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
        ("llama", {"head_dim": 16}, "head_dim = 16"),
        ("qwen3", {"head_dim": ...}, "head_dim = 128"),
        ("qwen3", {"use_sliding_window": True}, "use_sliding_window"),
        ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ("qwen3", {"rope_parameters": {"full_attention": {"rope_theta": 1.0}}}, "between layers"),
        ("qwen3", {"num_key_value_heads": ...}, "num_key_value_heads = 32"),
        ("arcee", {"hidden_act": ...}, "hidden_act = 'relu2'"),
        ("apertus", {"hidden_act": "xielu"}, "hidden_act = 'xielu'"),
        ("apertus", {"rope_parameters": ..., "rope_scaling": ...}, "'llama3'"),
        ("apertus", {"rope_parameters": None}, "'llama3'"),
        ("stablelm", {"use_qkv_bias": True}, "use_qkv_bias"),
        ("stablelm", {"use_parallel_residual": True}, "use_parallel_residual"),
        ("stablelm", {"qk_layernorm": True}, "qk_layernorm"),
        ("stablelm", {"partial_rotary_factor": 0.25, "rope_parameters": ...}, "partial_rotary"),
        ("stablelm", {"partial_rotary_factor": ..., "rope_parameters": ...}, "= 0.25 (only 1.0)"),
        ("starcoder2", {"use_bias": ...}, "use_bias = True"),
        ("starcoder2", {"sliding_window": 4096}, "sliding_window = 4096"),
        ("starcoder2", {"hidden_act": "gelu_pytorch_tanh"}, "hidden_act"),
        ("olmo2", {"rope_scaling": {"rope_type": "yarn"}}, "'yarn'"),
        ("gemma2", {"layer_types": ...}, "layer_types"),
        ("gemma2", {"hidden_activation": ...}, "hidden_activation = 'gelu_pytorch_tanh'"),
        ("gemma2", {"query_pre_attn_scalar": 144}, "query_pre_attn_scalar = 144: expected the"),
        ("gemma3_text", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping = 50.0"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("gemma3_text", {"rope_parameters": {"full_attention": {"rope_type": "linear"}}}, "linear"),
        ("mixtral", {"sliding_window": 4096}, "sliding_window = 4096"),
        ("mixtral", {"num_experts_per_tok": 4}, "num_experts_per_tok = 4 exceeds the number"),
        ("mixtral", {"num_local_experts": 2}, "gate.weight has shape (3, 32)"),
        ("qwen3_moe", {"norm_topk_prob": ...}, "norm_topk_prob = False (only True)"),
        ("qwen3_moe", {"mlp_only_layers": [1]}, "mlp_only_layers = [1]"),
        ("olmoe", {"clip_qkv": 8.0}, "clip_qkv = 8.0"),
        ("llama", {"model_type": "gpt2"}, "model_type = 'gpt2': expected one of llama, qwen3"),
        ("llama", {"model_type": ...}, "model_type = None"),
        ("llama", {"hidden_size": ...}, "'hidden_size' is missing"),
        ("llama", {"vocab_size": "many"}, "vocab_size"),
        ("llama", {"num_attention_heads": 5}, "num_attention_heads = 5"),
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads = 3"),
        ("llama", {"vocab_size": 299}, "shape (300, 32); by config.json it is (299, 32)"),
        ("llama", {"num_hidden_layers": 3}, "missing model.layers.2.self_attn.q_proj.weight"),
        ("llama", {"num_hidden_layers": 1}, "unknown model.layers.1."),
    ],
    ids=str,
)  # fmt: skip
def test_unsupported_settings(kind, changes, named, folder):
    refused(folder(kind, **changes), named)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 99) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@settings(deadline=None, max_examples=80)
@given(data=st.data(), kind=st.sampled_from(list(BASE)))
def test_any_value_of_a_setting_is_read_or_refused(data, kind, exported, tmp_path_factory):
    config = json.loads((exported / kind / "config.json").read_text())
    key = data.draw(st.sampled_from([*config, "rope_scaling", "layer_types", "hidden_act"]))
    config[key] = data.draw(
        ANYTHING | st.dictionaries(st.sampled_from(["type", "rope_theta"]), ANYTHING)
    )
    path = tmp_path_factory.mktemp("fuzz") / "config.json"
    path.write_text(json.dumps(config))
    try:
        architecture, _ = read_config(path)
    except UsageError:
        return
    Decoder(architecture)


def test_all_unsupported_settings_are_listed(folder):
    path = folder("llama", attention_bias=True, hidden_act="relu", rope_scaling={"type": "dynamic"})
    refused(path, "attention_bias", "hidden_act", "rope_scaling")


@pytest.mark.parametrize("kind", BASE)
def test_settings_of_version_4(kind, folder, exported):
    """rope_theta beside no rope_scaling, where version 5 has one table."""
    path = folder(kind, rope_parameters=..., rope_theta=777.0, rope_scaling=None)
    if kind == "apertus":  # its default is a scaled RoPE, which the null here does not undo
        refused(path, "'llama3'")
        return
    assert from_transformers(path)[0].rope_theta == 777.0
    assert from_transformers(exported / kind)[0].rope_theta == 10000.0


def test_absent_settings_take_the_default_of_their_class(folder):
    path = folder("llama", num_key_value_heads=4, rms_norm_eps=..., head_dim=None,
                  attention_bias=..., tie_word_embeddings=..., hidden_act=...)  # fmt: skip
    with pytest.raises(UsageError, match=r"k_proj\.weight has shape"):
        from_transformers(path)  # 4 heads by config.json, 2 in the file
    path = folder("arcee", rms_norm_eps=...)
    assert from_transformers(path)[0].norm_eps == 1e-5


@pytest.mark.parametrize("kind", BASE)
def test_defaults_are_those_of_the_library(kind):
    """The defaults written down here, against the installed library's."""
    transformers = pytest.importorskip("transformers", reason="the extra 'hf' is not installed")
    family = next(f for f in FAMILIES if f.model_type == kind)
    config = transformers.AutoConfig.for_model(kind)
    rope = config.rope_parameters
    rope = rope["full_attention"] if family.rope_by_layer else rope
    assert rope["rope_theta"] == family.defaults.get("rope_theta", 10000.0)
    for key, value in (dict(family.fixed) | dict(family.defaults)).items():
        if key == "rope_parameters":
            assert rope["rope_type"] == value["rope_type"]
        elif key in ("rope_theta", "partial_rotary_factor"):
            assert rope[key] == value
        elif key == "layer_types":
            assert set(config.layer_types) == set(value)
        else:
            assert getattr(config, key) == value, key
    for key in ("num_key_value_heads", "tie_word_embeddings"):
        ours = family.defaults.get(key, {"tie_word_embeddings": False}.get(key))
        theirs = getattr(config, key)
        assert theirs == ours or (ours is None and theirs == config.num_attention_heads)


def test_shards(folder):
    path = folder()
    tensors = load_file(path / "model.safetensors")
    (path / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in parts.items():
        save_file({name: tensors[name].half() for name in part}, path / file)
    index = path / "model.safetensors.index.json"
    weight_map = {name: file for file, part in parts.items() for name in part}
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    architecture, state, _ = from_transformers(path)
    Decoder(architecture).load_state_dict(state)
    assert {t.dtype for t in state.values()} == {torch.float32}
    assert torch.equal(
        state["embedding.weight"], tensors["model.embed_tokens.weight"].half().float()
    )
    (path / "b.safetensors").unlink()
    refused(path, "b.safetensors")
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": "../llama/a.safetensors"}}))
    refused(path, "is no file name of this folder")
    index.write_text(json.dumps({"weights": {}}))
    refused(path, "weight_map")


def test_pickles_are_refused_unread(folder):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    path = folder()
    (path / "model.safetensors").unlink()
    (path / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    refused(path, "pytorch_model.bin", "unpickles no weights", "save_pretrained")
    (path / "pytorch_model.bin").unlink()
    refused(path, "no model.safetensors")


def test_damaged_and_missing_files(folder, tmp_path):
    path = folder()
    (path / "tokenizer.json").unlink()
    refused(path, "no tokenizer.json", "save_pretrained")
    weights = (path / "model.safetensors").read_bytes()
    (path / "tokenizer.json").write_text("{}")
    (path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    refused(path, "model.safetensors: not a readable safetensors file")
    (path / "config.json").write_text("[1]")
    refused(path, "expected a JSON object, got list")
    (path / "config.json").write_text("{'model_type'")
    refused(path, "config.json: not readable as JSON")
    (path / "config.json").unlink()
    refused(path, "config.json: no such file")


def test_tensors_that_do_not_belong(folder):
    path = folder("stablelm")
    file = path / "model.safetensors"
    tensors = load_file(file)

    def store(**changes):
        renamed = {name.replace("__", "."): tensor for name, tensor in changes.items()}
        save_file(tensors | renamed, file)

    store(model__layers__0__self_attn__rotary_emb__inv_freq=torch.ones(3))  # of old versions
    from_transformers(path)
    store(model__norm__bias=torch.full((32,), 1e-3))
    refused(path, "model.norm.bias is not zero")
    store(model__norm__weight=torch.ones(32, dtype=torch.int8))
    refused(path, "model.norm.weight is torch.int8; expected fp32, fp16 or bf16")
    store(model__norm__weight=torch.ones(32).to(torch.float8_e4m3fn))
    refused(path, "float8")
    store(model__adapter=torch.ones(1))
    refused(path, "unknown model.adapter")


def test_a_copy_of_a_tied_head_is_ignored(make_model, tokenizer_path, end_of_text, tmp_path):
    model = make_model(tied_embeddings=True, head_scale=1.0)
    path = to_transformers(model, tokenizer_path, tmp_path / "out", end_of_text)
    tensors = load_file(path / "model.safetensors")
    assert "lm_head.weight" not in tensors
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, path / "model.safetensors")
    architecture, state, _ = from_transformers(path)
    assert architecture.tied_embeddings
    Decoder(architecture).load_state_dict(state)
