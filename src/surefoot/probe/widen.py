"""Build a narrow model whose sub-layers act as those of the wide one.

What an initialisation makes of another width is not known beforehand: 0.02 stays 0.02, sqrt(2/(5d))
and Xavier's follow the width. So two small models of one block are drawn, and the power of the
width by which each role's standard deviation goes is read off them.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch

from surefoot.probe.profile import Sizes
from surefoot.probe.reduce import parameters, reduced
from surefoot.probe.subject import Build, Subject, standard_deviations

TABLES = ("embedding", "position")
"""Roles that keep their full-width standard deviation: they are looked up, not multiplied by."""
_LARGEST = 6e7
"""Parameters of a model that is drawn to read powers off."""
_VOCABULARY = 1024


def build_narrow(build: Build, sizes: Sizes, narrow: Sizes) -> Subject:
    """A model of the sizes ``narrow`` that stands for one of ``sizes``.

    Each matrix has its full-width standard deviation times sqrt(r), the tables have their own.
    """
    subject = build(narrow)
    ratio = sizes.width / narrow.width
    if ratio == 1:
        return subject
    powers = exponents(build, replace(sizes, experts=narrow.experts))
    with torch.no_grad():
        for name, parameter in subject.model.named_parameters():
            role = subject.roles[name]
            if parameter.ndim >= 2:
                power = powers.get(role, 0.0) + (0.0 if role in TABLES else 0.5)
                parameter.mul_(ratio**power)
    return subject


def exponents(build: Build, sizes: Sizes) -> Mapping[str, float]:
    """By role, p where the standard deviation goes with width^p, to the nearest half."""
    found = []
    for heads in _two(sizes):
        small = replace(reduced(sizes, heads), layers=1, vocab_size=_VOCABULARY)
        subject = build(small)
        found.append((small.width, standard_deviations(subject.model, subject.roles)))
    (w1, first), (w2, second) = found
    return {
        role: round(2 * math.log(second[role] / first[role]) / math.log(w2 / w1)) / 2
        for role in first
        if first[role] > 0 and second.get(role, 0) > 0
    }


def _two(sizes: Sizes) -> tuple[int, int]:
    """Numbers of heads of the two small models, with whole groups of key/value heads if it goes.

    Fans enter some standard deviations, and those of keys and values follow ``kv_heads``.
    """
    group = sizes.heads // sizes.kv_heads
    for first in (group, 1):
        heads = (first, 2 * first)
        small = replace(reduced(sizes, heads[1]), layers=1, vocab_size=_VOCABULARY)
        if heads[1] <= sizes.heads and parameters(small) <= _LARGEST:
            return heads
    return 1, 2
