"""What fields of a recipe must fit together; each refusal says what to write instead."""

from surefoot.recipe.architecture import Architecture
from surefoot.recipe.init import Init
from surefoot.recipe.optimizer import Optimizer
from surefoot.recipe.sections import Batch

_LARGEST_SHARE = 0.02
"""Of a weight that may decay in one step."""

_SMALLEST_EPS = 1e-37
"""Just above the smallest normal number of fp32."""


def check_architecture(a: Architecture) -> None:
    """Refuse shapes and switches that contradict each other."""
    if a.width % a.heads:
        raise ValueError(
            f"architecture.heads = {a.heads} does not divide architecture.width = {a.width}; "
            f"use one of {divisors(a.width)}"
        )
    if (a.width // a.heads) % 2:
        raise ValueError(
            f"architecture.heads = {a.heads} gives heads of {a.width // a.heads} channels; "
            "RoPE turns pairs, so the head size must be even"
        )
    if a.kv_heads is not None and a.heads % a.kv_heads:
        raise ValueError(
            f"architecture.kv_heads = {a.kv_heads} does not divide architecture.heads = "
            f"{a.heads}; use one of {divisors(a.heads)}"
        )
    if a.norm_placement == "none" and a.embedding_norm:
        raise ValueError('architecture.embedding_norm is a norm: not with norm_placement = "none"')
    if a.residual_scale != "auto" and a.norm_placement != "deepnorm":
        raise ValueError('architecture.residual_scale goes with norm_placement = "deepnorm"')
    if a.qk_norm_over == "width" and not a.qk_norm:
        raise ValueError("architecture.qk_norm_over goes with architecture.qk_norm = true")
    if a.experts is not None and a.experts_per_token > a.experts:
        raise ValueError(
            f"architecture.experts_per_token = {a.experts_per_token} exceeds "
            f"architecture.experts = {a.experts}"
        )
    if a.qk_clip is not None and a.qk_norm:
        raise ValueError(
            "architecture.qk_clip has no effect behind QK-norm: set architecture.qk_norm = false, "
            "or leave qk_clip out"
        )
    if a.qk_clip is not None and a.sigma_reparam:
        raise ValueError(
            "architecture.qk_clip scales plain matrices: not with architecture.sigma_reparam"
        )
    if a.expert_capacity is not None and a.experts is None:
        raise ValueError("architecture.expert_capacity goes with architecture.experts")


def check_init(init: Init, a: Architecture) -> None:
    """Refuse an initialisation that is not defined for the architecture, with the reason."""
    given = [
        name
        for name in ("std", "embedding_std", "depth_scaled_outputs")
        if getattr(init, name) is not None
    ]
    if given and init.standard_deviations(a.width) is None:
        raise ValueError(
            f'init.{given[0]} has no meaning for init.method = "{init.method}", whose standard '
            "deviations follow from the shape of each matrix: leave it out"
        )
    if init.wesar_std != Init().wesar_std and init.method != "wesar":
        raise ValueError('init.wesar_std goes with init.method = "wesar"')
    if init.method == "wesar" and a.tied_embeddings:
        raise ValueError(
            'init.method = "wesar" gives embedding and head a factor each: not with '
            "architecture.tied_embeddings"
        )
    if init.method in ("t-fixup", "deepnorm") and a.sigma_reparam:
        raise ValueError(
            f'init.method = "{init.method}" is about the size of matrices, which '
            "architecture.sigma_reparam normalises away: use one of them"
        )
    if init.method == "mup" and init.base_width is None:
        raise ValueError(
            'init.method = "mup" needs init.base_width, the width at which the rates were tuned: '
            f"all that it does is relative to it (at {a.width}, this model's own, nothing)"
        )
    if init.base_width is not None and init.method != "mup":
        raise ValueError('init.base_width goes with init.method = "mup"')
    if init.method == "wesar" and (a.sigma_reparam or a.qk_clip is not None):
        other = "sigma_reparam" if a.sigma_reparam else "qk_clip"
        raise ValueError(
            f'init.method = "wesar" stores every matrix with a factor of its own: not with '
            f"architecture.{other}, which acts on the matrix too"
        )
    if init.method == "deepnorm" and a.norm_placement != "deepnorm":
        raise ValueError(
            f'init.method = "deepnorm" is made for norm_placement = "deepnorm", not '
            f'"{a.norm_placement}": its small weights belong to an enlarged shortcut behind which '
            "a norm stands"
        )
    if init.method == "t-fixup" and a.norm_placement != "none":
        raise ValueError(
            'init.method = "t-fixup" replaces the norms: it needs norm_placement = "none", not '
            f'"{a.norm_placement}"'
        )
    if a.norm_placement == "none" and init.method not in ("t-fixup", "wesar"):
        raise ValueError(
            'norm_placement = "none" needs init.method = "t-fixup", which keeps the updates of a '
            f'model without norms small; "{init.method}" does not'
        )


def check_optimizer(o: Optimizer) -> None:
    """Refuse settings of one clip or optimizer beside another, where they would be ignored."""
    if o.clip_ratio is not None and o.clip not in ("adagc", "agc"):
        raise ValueError('optimizer.clip_ratio goes with clip = "adagc" or "agc"')
    if o.independent_decay and o.weight_decay > _LARGEST_SHARE:
        raise ValueError(
            f"optimizer.independent_decay takes a share of {o.weight_decay:g} from every matrix at "
            "each step at the peak rate: set optimizer.weight_decay to 1e-4 (Wortsman et al. "
            f"2023), at most {_LARGEST_SHARE:g}"
        )
    if o.eps < _SMALLEST_EPS:
        raise ValueError(
            f"optimizer.eps = {o.eps:g} is 0 in fp32, and 0/0 makes weights NaN: use 1e-15 or more"
        )
    if (o.shallow_gradient == 1.0) != (o.shallow_layers == 0):
        raise ValueError(
            "optimizer.shallow_gradient acts on the first optimizer.shallow_layers blocks: set both"
        )


def head_factor(a: Architecture, init: Init) -> float:
    """The factor on the logits: of a tied head, of the embedding's spread, and of muP's width."""
    factor = a.output_factor_for(init.table_std(a.width, a.layers, a.input_factor))
    # With tied embeddings that factor falls with the width already.
    if init.method == "mup" and a.head_scale == "auto" and not a.tied_embeddings:
        factor *= (init.base_width or a.width) / a.width
    return factor


def divisors(n: int) -> list[int]:
    """Those of a number, up to 128."""
    return [i for i in range(1, min(n, 128) + 1) if n % i == 0]


def check_batch(batch: Batch) -> None:
    """Refuse ramps of batch size and of length that do not come out."""
    if (batch.length_from is None) != (batch.length_steps is None):
        raise ValueError(
            "a sequence-length warm-up needs both batch.length_from and batch.length_steps"
        )
    ramp = (batch.ramp_from, batch.ramp_increment, batch.ramp_samples)
    if all(value is None for value in ramp):
        return
    if batch.ramp_from is None or batch.ramp_increment is None or batch.ramp_samples is None:
        raise ValueError("a batch ramp needs batch.ramp_from, ramp_increment and ramp_samples")
    if batch.ramp_from > batch.global_size:
        raise ValueError(
            f"batch.ramp_from = {batch.ramp_from} exceeds batch.global_size = {batch.global_size}"
        )
    if (batch.global_size - batch.ramp_from) % batch.ramp_increment:
        raise ValueError(
            f"batch.ramp_increment = {batch.ramp_increment} does not divide global_size - ramp_from"
            f" = {batch.global_size - batch.ramp_from}"
        )
