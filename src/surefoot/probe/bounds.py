"""Spike No More's upper bounds of a pre-norm block's Jacobians, from standard deviations alone.

::

    y  = x' + FFN(LN(x'))      ||dy/dx'|| <= 1 + ||W2|| · slope · ||W1|| / sigma_x'
    x' = x  + Attn(LN(x))      ||dx'/dx|| <= 1 + ||W_O|| · ||J^Z|| / sigma_x

A Gaussian matrix (m, n) of standard deviation s has the norm s (sqrt(m) + sqrt(n)); a norm divides
its gradient by the standard deviation of what it reads. With F the identity that gives the paper's
C_ffn = (sqrt(d) + sqrt(dff))^2 and C_attn = 2 sqrt(d) ||J^Z||.

Two things the paper's main text leaves open are settled here, and are this module's own:

- J^Z, the Jacobian of the concatenated heads, is taken for fixed attention weights: ||A|| ||W_V||,
  with ||A|| <= 2, the norm of the averaging that attention starts with (Hardy's inequality), and
  sqrt(heads / kv_heads) for values that several heads share. The path through the softmax is left
  out. It is small while attention logits have a standard deviation of about 1 or less; at 2.6
  (256 channels, 0.1 for all matrices) the norm measured is 1.3 times this bound.
- the slope of the activation: its largest for a plain one. A gated unit F(W1 z) · (W3 z) has the
  slopes F'(a) b toward W1 and F(a) toward W3, which depend on the input; their RMS over
  a, b ~ N(0, s d^1/2) is taken, as the entries of a Gaussian matrix average over it.

Source: Takase et al. 2023, 2312.16903, eq. 15 and 20.
"""

import math
from collections.abc import Callable, Mapping

HARDY = 2.0
"""Norm of causal averaging, y_i = mean of x_0 .. x_i, for sequences of any length."""

Function = Callable[[float], float]


def matrix_norm(std: float, rows: int, columns: int) -> float:
    """Spectral norm to expect of a Gaussian matrix."""
    return std * (math.sqrt(rows) + math.sqrt(columns))


def attention_bound(
    *,
    width: int,
    heads: int,
    kv_heads: int,
    head_size: int,
    value_std: float,
    output_std: float,
    sigma: float,
) -> float:
    """Upper bound of ||dx'/dx|| over a pre-norm attention sub-layer.

    Args:
        width: channels of the stream, d.
        heads: query heads.
        kv_heads: key/value heads.
        head_size: channels of a head.
        value_std: standard deviation of the value matrix.
        output_std: of the output matrix, sigma_O.
        sigma: of what the norm reads, sigma_x.

    Returns:
        The bound, inf where sigma is 0.
    """
    values = HARDY * matrix_norm(value_std, width, kv_heads * head_size)
    values *= math.sqrt(heads / kv_heads)
    return _bound(matrix_norm(output_std, width, heads * head_size) * values, sigma)


def feed_forward_bound(
    *,
    width: int,
    ff_width: int,
    inner_std: float,
    output_std: float,
    sigma: float,
    activation: str,
) -> float:
    """Upper bound of ||dy/dx'|| over a pre-norm feed-forward sub-layer.

    Args:
        width: channels of the stream, d.
        ff_width: inner channels, dff.
        inner_std: standard deviation of the matrices that read, sigma_1.
        output_std: of the one that writes, sigma_2.
        sigma: of what the norm reads, sigma_x'.
        activation: one of :data:`SLOPES`, or another, which counts as the identity.
    """
    inner = matrix_norm(inner_std, ff_width, width)
    output = matrix_norm(output_std, width, ff_width)
    return _bound(output * slope(activation, inner_std * math.sqrt(width)) * inner, sigma)


def slope(activation: str, spread: float) -> float:
    """What the activation multiplies a Jacobian by, at most (plain) or in RMS (gated).

    Args:
        activation: ``relu``, ``gelu``, ``swiglu``, ...; others count as the identity.
        spread: standard deviation of what it reads; matters for gated ones.
    """
    if activation in SLOPES:
        return SLOPES[activation]
    if activation not in GATED:
        return 1.0
    function, derivative = GATED[activation]
    # sqrt(E[F'(a)² b²]) + sqrt(E[F(a)²]), a and b independent.
    gate = spread * math.sqrt(_mean(lambda a: derivative(a) ** 2, spread))
    return gate + math.sqrt(_mean(lambda a: function(a) ** 2, spread))


def _bound(product: float, sigma: float) -> float:
    if sigma > 0 or sigma != sigma:
        return 1 + product / sigma
    return math.inf if product else 1.0


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _silu(x: float) -> float:
    return x * _sigmoid(x)


def _silu_slope(x: float) -> float:
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


def _gelu(x: float) -> float:
    return x * _below(x)


def _gelu_slope(x: float) -> float:
    return _below(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _below(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


SLOPES: Mapping[str, float] = {"relu": 1.0, "gelu": 1.129, "silu": 1.1, "identity": 1.0}
"""Largest slope of activations."""

GATED: Mapping[str, tuple[Function, Function]] = {
    "swiglu": (_silu, _silu_slope),
    "geglu": (_gelu, _gelu_slope),
    "reglu": (lambda x: max(x, 0.0), lambda x: float(x > 0)),
}
"""Activations of gated units and their slopes."""

_STEPS, _REACH = 200, 8.0


def _mean(function: Function, spread: float) -> float:
    """Of a function of a normal variable, by the trapezoid rule, which is exact to many digits."""
    if not math.isfinite(spread):
        return spread
    step = 2 * _REACH / _STEPS
    points = [-_REACH + i * step for i in range(_STEPS + 1)]
    weights = [math.exp(-x * x / 2) for x in points]
    total = sum(w * function(spread * x) for w, x in zip(weights, points, strict=True))
    return total / sum(weights)
