"""Small models to look at, and profiles made by hand."""

import json

import pytest

from surefoot.probe import InitProfile, LayerProfile, Sizes, TableProfile
from surefoot.probe.decoder import decoder_builder, sizes_of
from surefoot.probe.measure import measure
from surefoot.probe.reduce import Plan, reduced
from surefoot.probe.widen import build_narrow
from surefoot.recipe import Architecture, Init


def _growth(seen):
    return seen.layers[0].stream_gradient / seen.stream_gradient


@pytest.fixture(scope="session")
def look():
    """look(init, narrow=..., rule=..., **architecture): what one pass leaves of a decoder."""

    def run(init, *, narrow=None, rule=True, seed=1, sequences=4, head=1.0, **shape):
        a = Architecture(
            **{"layers": 12, "width": 128, "heads": 4, "vocab_size": 1000, "sequence_length": 128,
               "norm": "layernorm", "activation": "gelu", "qk_norm": False, **shape}
        )  # fmt: skip
        full = sizes_of(a)
        sizes = reduced(full, narrow or a.heads)
        build = decoder_builder(a, Init(**init), seed=seed, head=head)
        subject = build_narrow(build, full, sizes) if rule else build(sizes)
        plan = Plan(sizes=sizes, length=a.sequence_length, sequences=sequences, rows=a.vocab_size)
        return measure(subject, plan, seed)

    run.growth = _growth
    return run


@pytest.fixture
def make_profile():
    """A profile of a healthy recipe; keyword arguments replace its fields."""

    def make(layers=4, layer=None, **replace):
        one = {
            "stream_rms": 1.0, "attention_rms": 0.04, "feed_forward_rms": 0.08,
            "stream_gradient": 0.04, "parameter_gradient": 0.2, "attention_sigma": 1.0,
            "feed_forward_sigma": 1.0, "attention_bound": 2.3, "feed_forward_bound": 1.7,
            "logit_std": 1.0, "logit_max": 4.0, "entropy": 0.9, "entropy_min": 0.88,
        }  # fmt: skip
        table = TableProfile(
            name="embedding.weight", role="embedding", rows=2048, rms=1.0, gradient=1e-5,
            reach=1.1, warmup_reach=0.05,
        )  # fmt: skip
        sizes = Sizes(
            layers=layers, width=128, heads=4, kv_heads=4, head_size=32, ff_width=352,
            ff_matrices=3, vocab_size=2048,
        )  # fmt: skip
        values = {
            "target": "a.toml", "kind": "recipe", "model": "a decoder", "method": "spike-no-more",
            "placement": "pre", "sizes": sizes, "measured_width": 128, "measured_heads": 4,
            "sequence_length": 256, "measured_length": 256, "sequences": 4, "rows": 2048,
            "loss": 7.8, "loss_error": 0.02, "ln_vocab": 7.625, "logit_std": 0.63,
            "stream_rms": 1.03, "stream_gradient": 0.038,
            "layers": tuple(
                LayerProfile(layer=i, **{**one, **(layer or {})}) for i in range(layers)
            ),
            "tables": (table,),
        }  # fmt: skip
        return InitProfile(**{**values, **replace})

    return make


LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 32, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 100,
    "max_position_embeddings": 64,
}  # fmt: skip


@pytest.fixture
def config(tmp_path):
    """config(key=value, ...): the path of a small Llama's config.json with these settings."""

    def write(name="config.json", **settings):
        path = tmp_path / name
        path.write_text(json.dumps({**LLAMA, **settings}), "utf-8")
        return path

    return write
