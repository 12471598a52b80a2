"""How a model is made smaller: what is kept, what fits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.probe import Sizes
from surefoot.probe.reduce import (
    DRAWN,
    FLOPS,
    LEAST_WIDTH,
    WHOLE,
    expert_parameters,
    flops,
    memory_needed,
    plan,
    reduced,
)

LLAMA_7B = Sizes(layers=32, width=4096, heads=32, kv_heads=32, head_size=128, ff_width=11008,
                 ff_matrices=3, vocab_size=32000)  # fmt: skip
SMALL = Sizes(layers=4, width=128, heads=4, kv_heads=2, head_size=32, ff_width=352, ff_matrices=3,
              vocab_size=2048)  # fmt: skip


def test_what_fits_is_not_reduced():
    found = plan(SMALL, 256, fixed_length=True, memory=2**34)
    assert found.sizes == SMALL
    assert (found.length, found.sequences, found.rows) == (256, 4, 2048)


def test_depth_length_vocabulary_and_head_size_are_kept():
    found = plan(LLAMA_7B, 2048, fixed_length=False, memory=2**34)
    narrow = found.sizes
    assert flops(found) <= FLOPS
    assert LEAST_WIDTH <= narrow.width < 4096
    assert (narrow.layers, narrow.vocab_size, narrow.head_size) == (32, 32000, 128)
    assert found.length == 2048
    assert narrow.width / narrow.heads == 128
    assert narrow.ff_width / narrow.width == pytest.approx(11008 / 4096, rel=0.01)


def test_a_length_that_nobody_stated_is_halved_and_a_stated_one_is_not():
    long = replace(LLAMA_7B, layers=126)
    assert plan(long, 8192, fixed_length=False, memory=None).length < 8192
    assert plan(long, 8192, fixed_length=True, memory=None).length == 8192


def test_memory_limits_too():
    little = memory_needed(plan(LLAMA_7B, 512, fixed_length=True, memory=None)) // 2
    found = plan(LLAMA_7B, 512, fixed_length=False, memory=little)
    assert memory_needed(found) <= little // 2 or found.sizes.width == LEAST_WIDTH


@given(st.integers(1, 24), st.integers(1, 8), st.sampled_from([8, 64, 100]))
def test_reduced_sizes_go_together(groups, kv_heads, head_size):
    heads = groups * kv_heads
    full = replace(SMALL, heads=heads, kv_heads=kv_heads, head_size=head_size, ff_width=352,
                   width=heads * head_size)  # fmt: skip
    for fewer in range(1, heads + 1):
        if heads % fewer == 0:
            found = reduced(full, fewer)
            assert found.heads % found.kv_heads == 0
            assert found.width * heads == full.width * fewer
            assert found.ff_width >= 1


def test_an_odd_number_of_heads_is_reduced_too():
    found = plan(replace(LLAMA_7B, width=71 * 64, heads=71, kv_heads=1, head_size=64), 2048,
                 fixed_length=False, memory=2**34)  # fmt: skip
    assert found.sizes.width % 64 == 0
    assert LEAST_WIDTH <= found.sizes.width < 71 * 64
    assert flops(found) <= FLOPS


GPT2 = Sizes(layers=12, width=768, heads=12, kv_heads=12, head_size=64, ff_width=3072,
             ff_matrices=2, vocab_size=50257)  # fmt: skip
MANY = Sizes(layers=61, width=7168, heads=128, kv_heads=128, head_size=56, ff_width=2048,
             ff_matrices=3, vocab_size=129280, experts=256, experts_per_token=8)  # fmt: skip


def test_a_model_of_seconds_is_built_whole():
    found = plan(GPT2, 1024, fixed_length=False, memory=2**34)
    assert FLOPS < flops(found) < WHOLE * FLOPS
    assert found.sizes == GPT2


def test_of_many_experts_some_are_built_before_the_width_is_given_up():
    dense = plan(replace(MANY, experts=8), 1024, fixed_length=True, memory=24 * 10**9)
    found = plan(MANY, 1024, fixed_length=True, memory=24 * 10**9)
    assert found.sizes.width == dense.sizes.width
    assert 16 <= found.sizes.experts < 256
    assert found.sizes.experts_per_token == 8
    assert expert_parameters(found.sizes) <= DRAWN


def test_experts_that_are_not_alike_are_left_out_for_memory_only():
    free = plan(MANY, 1024, fixed_length=True, memory=None, alike=False)
    assert free.sizes.experts == 256
    tight = plan(MANY, 1024, fixed_length=True, memory=memory_needed(free), alike=False)
    assert 16 <= tight.sizes.experts < 256
    assert tight.sizes.width == free.sizes.width


def test_a_token_never_passes_more_experts_than_there_are():
    few = replace(MANY, experts=8, experts_per_token=8)
    assert plan(few, 1024, fixed_length=True, memory=10**9).sizes.experts == 8
