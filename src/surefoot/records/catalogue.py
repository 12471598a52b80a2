"""The catalogue of signals: every quantity that surefoot can measure or read, by name.

A scalar signal is addressed by its name (``loss``); a per-place signal by name and place
(``grad_norm@layers.3.attention.wo``). Readers map other trainers' columns onto these names, so one
detector or one chart serves every run.
"""

from dataclasses import dataclass
from typing import Literal

Bad = Literal["up", "down", "both", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A catalogued quantity.

    Attributes:
        name: the column name, snake_case.
        unit: ``nat``, ``s``, ``tokens/s``, ``byte``, ``1`` for a pure number.
        definition: one sentence, exact enough to recompute it.
        source: author, year and arXiv id where the quantity comes from; "" if common knowledge.
        bad: the direction in which it leaves its healthy range.
        volatile: depends on wall-clock or memory; outside every bit-equality claim.
        integer: a counter, stored as int64; everything else is float32.
        per_place: also (or only) measured for each parameter or layer.
    """

    name: str
    unit: str
    definition: str
    source: str = ""
    bad: Bad = "none"
    volatile: bool = False
    integer: bool = False
    per_place: bool = False


_ALL = (
    Signal(name="loss", unit="nat", bad="up",
           definition="mean cross-entropy per counted token of the global batch, before z-loss"),
    Signal(name="log_z", unit="nat", bad="both", source="Chowdhery et al. 2022, 2204.02311",
           definition="signed mean of the log-sum-exp of the logits over counted tokens"),
    Signal(name="log_z_abs_max", unit="nat", bad="up", source="Chowdhery et al. 2022, 2204.02311",
           definition="largest |log-sum-exp of the logits| over counted tokens"),
    Signal(name="z_loss", unit="nat^2", bad="up", source="Chowdhery et al. 2022, 2204.02311",
           definition="mean squared log-sum-exp, measured whatever its weight in the loss"),
    Signal(name="grad_norm", unit="1", bad="up", per_place=True,
           definition="L2 norm of the gradient before clipping, after unscaling"),
    Signal(name="clip_factor", unit="1", bad="down",
           definition="factor by which clipping multiplied the gradient; 1 = not clipped"),
    Signal(name="param_norm", unit="1", bad="both", per_place=True,
           definition="L2 norm of the parameters after the update"),
    Signal(name="update_rms", unit="1", bad="up", per_place=True,
           definition="root mean square of the parameter change of this step"),
    Signal(name="update_ratio", unit="1", bad="both", per_place=True,
           source="Nishida et al. 2024, 2410.05052",
           definition="L2 norm of the change of a parameter over the L2 norm of the parameter"),
    Signal(name="adam_rms", unit="1", bad="up", per_place=True,
           source="Wortsman et al. 2023, 2304.13013",
           definition="sqrt(mean(g^2 / max(v, eps^2))), v the bias-corrected second moment after "
                      "this gradient; about 1 while v is up to date"),
    Signal(name="eps_share", unit="1", bad="up", per_place=True,
           source="Molybog et al. 2023, 2304.09871",
           definition="share of the weights with sqrt(bias-corrected v) < eps"),
    Signal(name="grad_cosine", unit="1", bad="up", per_place=True,
           source="Molybog et al. 2023, 2304.09871",
           definition="cosine of the gradient with Adam's first moment before this update: whether "
                      "gradients agree over time"),
    Signal(name="adam_update_rms", unit="1", bad="up", per_place=True,
           source="Molybog et al. 2023, 2304.09871",
           definition="root mean square of m / (sqrt(v) + eps), bias-corrected, before rate and "
                      "decay; sqrt((1 - beta1) / (1 + beta1)) while gradients are independent in "
                      "time, 1 where they all agree"),
    Signal(name="update_bimodality", unit="1", bad="up", per_place=True,
           source="Molybog et al. 2023, 2304.09871",
           definition="Sarle's coefficient (skewness^2 + 1) / kurtosis of m / (sqrt(v) + eps): 1/3 "
                      "for a bell, 5/9 for a flat distribution, 1 for two points"),
    Signal(name="update_large_share", unit="1", bad="up", per_place=True,
           source="Molybog et al. 2023, 2304.09871",
           definition="share of the weights with |m / (sqrt(v) + eps)| > 0.8"),
    Signal(name="second_moment_lag", unit="1", bad="both", per_place=True,
           source="Bai et al. 2025, 2506.04805",
           definition="L2 norm of the gradient over that of the root of the bias-corrected second "
                      "moment: far above 1 where v has not seen such gradients, far below 1 where "
                      "it has not forgotten larger ones"),
    Signal(name="attention_logit_max", unit="1", bad="up", per_place=True,
           source="Wortsman et al. 2023, 2309.14322",
           definition="largest |q.k / sqrt(head_dim)| over the sampled sequences, after masking"),
    Signal(name="load_balancing_loss", unit="1", bad="up", source="Fedus et al. 2021, 2101.03961",
           definition="auxiliary loss that evens the load of the experts"),
    Signal(name="router_z_loss", unit="nat^2", bad="up", source="Zoph et al. 2022, 2202.08906",
           definition="mean squared log-sum-exp of the router's logits"),
    Signal(name="router_entropy", unit="nat", bad="down", per_place=True,
           definition="entropy of the router's probabilities over the experts, mean over tokens"),
    Signal(name="router_logit_max", unit="1", bad="up", per_place=True,
           definition="largest absolute logit of a router"),
    Signal(name="expert_load_max", unit="1", bad="up", per_place=True,
           definition="tokens sent to the busiest expert over its even share; 1 = even"),
    Signal(name="tokens_dropped", unit="1", bad="up", per_place=True,
           definition="share of the assignments of tokens to experts that exceeded their capacity"),
    Signal(name="learning_rate", unit="1", definition="learning rate used by this update"),
    Signal(name="loss_scale", unit="1", bad="down",
           definition="factor on the loss before backward (fp16)"),
    Signal(name="update_skipped", unit="1", bad="up", integer=True,
           definition="1 if parameters, moments and optimizer step were left untouched"),
    Signal(name="batch_size", unit="sequence", integer=True,
           definition="sequences in the global batch of this step"),
    Signal(name="tokens", unit="token", integer=True,
           definition="counted tokens in the global batch of this step"),
    Signal(name="consumed_samples", unit="sequence", integer=True,
           definition="sequences consumed through this step; the next step starts there"),
    Signal(name="consumed_tokens", unit="token", integer=True,
           definition="counted tokens consumed through this step"),
    Signal(name="data_phase", unit="1", integer=True,
           definition="number of the planned data mixture or curriculum stage that this step was "
                      "fed from: its change is announced, not a fault"),
    Signal(name="validation_loss", unit="nat", bad="up",
           definition="mean cross-entropy per token on held-out documents"),
    Signal(name="step_time", unit="s", bad="up", volatile=True,
           definition="wall-clock of this step, data loading included, evaluation excluded"),
    Signal(name="tokens_per_second", unit="token/s", bad="down", volatile=True,
           definition="counted tokens of the global batch over step_time"),
    Signal(name="memory", unit="byte", bad="up", volatile=True,
           definition="peak memory so far: device allocator, or resident set on a CPU"),
)  # fmt: skip

CATALOGUE: dict[str, Signal] = {signal.name: signal for signal in _ALL}
"""What surefoot itself measures."""

_READ = (
    Signal(name="nll_loss", unit="nat", bad="up",
           definition="negative log-likelihood per token where the loss has other terms"),
    Signal(name="perplexity", unit="1", bad="up", definition="exp of the loss"),
    Signal(name="validation_perplexity", unit="1", bad="up",
           definition="exp of the validation loss"),
    Signal(name="test_loss", unit="nat", bad="up",
           definition="mean cross-entropy per token on the test set"),
    Signal(name="num_zeros", unit="1", integer=True,
           definition="elements of the gradient that are exactly zero"),
    Signal(name="skipped_iterations", unit="1", bad="up", integer=True,
           definition="updates skipped since the record before, as the trainer counts"),
    Signal(name="nan_iterations", unit="1", bad="up", integer=True,
           definition="iterations with a NaN since the record before, as the trainer counts"),
    Signal(name="samples_per_second", unit="sequence/s", bad="down", volatile=True,
           definition="sequences of the global batch over the step's time"),
    Signal(name="tokens_per_second_per_device", unit="token/s", bad="down", volatile=True,
           definition="tokens per second of one device"),
    Signal(name="tflops_per_device", unit="TFLOP/s", bad="down", volatile=True,
           definition="model floating-point operations per second of one device"),
    Signal(name="mfu", unit="1", bad="down", volatile=True,
           source="Chowdhery et al. 2022, 2204.02311",
           definition="model FLOP/s over the device's peak"),
    Signal(name="memory_allocated", unit="byte", bad="up", volatile=True,
           definition="memory allocated on a device at the time of the record"),
    Signal(name="memory_reserved", unit="byte", bad="up", volatile=True,
           definition="peak memory that the allocator holds"),
    Signal(name="timestamp", unit="s", volatile=True, definition="seconds since 1970, UTC"),
    Signal(name="accuracy", unit="1", bad="down", definition="share of tokens predicted exactly"),
    Signal(name="validation_accuracy", unit="1", bad="down",
           definition="share of held-out tokens predicted exactly"),
    Signal(name="epoch", unit="1", definition="passes over the data so far"),
)  # fmt: skip

READ: dict[str, Signal] = {signal.name: signal for signal in _READ}
"""What only other trainers' logs bring; it is in no run folder."""


def split_name(name: str) -> tuple[str, str | None]:
    """``"grad_norm@layers.3"`` -> ``("grad_norm", "layers.3")``; a scalar has place None."""
    signal, separator, place = name.partition("@")
    return signal, place if separator else None


def is_volatile(name: str) -> bool:
    """Whether the signal ``name`` (scalar or per place) is outside bit-equality claims."""
    signal = signal_of(name)
    return signal is not None and signal.volatile


def is_integer_signal(name: str) -> bool:
    """Whether the signal ``name`` is a counter."""
    signal = signal_of(name)
    return signal is not None and signal.integer


def signal_of(name: str) -> Signal | None:
    """What is known of the signal ``name`` (scalar or per place); None if nothing."""
    scalar = split_name(name)[0]
    return CATALOGUE.get(scalar) or READ.get(scalar)
