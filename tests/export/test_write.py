"""What is written, and what is refused; without the transformers library."""

import json
import os
import stat

import pytest
from tokenizers import Tokenizer

from surefoot.errors import StorageError, UsageError
from surefoot.export import to_transformers, write


def test_files_and_permissions(make_model, tokenizer_path, end_of_text, tmp_path):
    out = tmp_path / "deep" / "out"
    assert to_transformers(make_model(), tokenizer_path, out, end_of_text) == out
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(out.stat().st_mode) == 0o777 & ~umask
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o666 & ~umask}
    settings = json.loads((out / "tokenizer_config.json").read_text())
    assert settings["clean_up_tokenization_spaces"] is False
    assert settings["eos_token"] == "<|endoftext|>"
    config = json.loads((out / "config.json").read_text())
    # For versions 4 and 5 of the library.
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == 10000.0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"norm": "layernorm"},
            ['of Qwen3ForCausalLM, architecture.norm = "layernorm" (there "rmsnorm")',
             "of StableLmForCausalLM, architecture.qk_norm = true (there false)"],
        ),
        (
            {"norm_placement": "deepnorm"},
            ['of Qwen3ForCausalLM, architecture.norm_placement = "deepnorm" (there "pre")'],
        ),
        (
            {"attention_softcap": 20.0, "qk_norm": False},
            ["of LlamaForCausalLM, architecture.attention_softcap = 20.0 (there none)",
             'of Gemma2ForCausalLM, architecture.norm_placement = "pre" (there "sandwich")'],
        ),
        (
            {"norm_placement": "peri", "attention_softcap": 20.0},
            ["of Gemma2ForCausalLM, architecture.qk_norm = true (there false)",
             "of Gemma3ForCausalLM, architecture.attention_softcap = 20.0 (there none)"],
        ),
        (
            {"experts": 3, "activation": "gelu"},
            ['of Qwen3MoeForCausalLM, architecture.activation = "gelu" (there "swiglu")',
             "of ApertusForCausalLM, architecture.experts = 3 (there none)"],
        ),
        (
            {"norm_placement": "b2t", "norm": "layernorm", "experts": 3, "qk_norm": False},
            ['architecture.norm_placement = "b2t" (there "pre") and architecture.experts = 3'],
        ),
        (
            {"qk_norm_over": "width"},
            ['of Qwen3ForCausalLM, architecture.qk_norm_over = "width" (there "head")',
             'of Olmo2ForCausalLM, architecture.norm_placement = "pre" (there "reordered")'],
        ),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_class_computes_is_named(
    changes, named, make_model, tokenizer_path, end_of_text, tmp_path
):
    model = make_model(**changes)
    with pytest.raises(UsageError, match="cannot be exported") as caught:
        to_transformers(model, tokenizer_path, tmp_path / "out", end_of_text)
    for part in named:
        assert part in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_a_folder_in_use_is_left_alone(make_model, tokenizer_path, end_of_text, tmp_path):
    model = make_model()
    (tmp_path / "empty").mkdir()
    to_transformers(model, tokenizer_path, tmp_path / "empty", end_of_text)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for out in (taken, tmp_path / "file", tmp_path / "empty"):
        before = sorted(p.name for p in tmp_path.rglob("*"))
        with pytest.raises(UsageError, match=f"{out.name} exists .* give --out a new one"):
            to_transformers(model, tokenizer_path, out, end_of_text)
        assert sorted(p.name for p in tmp_path.rglob("*")) == before
    assert (taken / "mine.txt").read_text() == "mine"


def test_tokenizer_that_does_not_fit(make_model, tokenizer_path, end_of_text, tmp_path):
    size = Tokenizer.from_file(str(tokenizer_path)).get_vocab_size()
    out = tmp_path / "out"
    with pytest.raises(UsageError, match=rf"{size} tokens, but .*\.vocab_size = {size - 1}"):
        to_transformers(make_model(vocab_size=size - 1), tokenizer_path, out, end_of_text)
    with pytest.raises(UsageError, match=f"end_of_text = {size}: .* has no token of this id"):
        to_transformers(make_model(), tokenizer_path, out, size)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(UsageError, match=r"bad\.json: not a readable tokenizer\.json"):
        to_transformers(make_model(), tmp_path / "bad.json", out, 0)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("torn")])
def test_a_failed_write_leaves_nothing(
    error, make_model, tokenizer_path, end_of_text, tmp_path, monkeypatch
):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(write, "save_file", fail)
    out = tmp_path / "out"
    with pytest.raises(StorageError, match=r"cannot write .*out: .*nothing was left there"):
        to_transformers(make_model(), tokenizer_path, out, end_of_text)
    assert not any(tmp_path.iterdir())
