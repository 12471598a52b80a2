"""The optimizer section."""

from typing import Annotated, Literal

from pydantic import Field

from surefoot.recipe.bounds import Count, Fraction, NonNegative, Positive, Rate, Section, Share

OptimizerName = Literal["adamw", "stable-adamw", "adamw-update-clip", "laprop", "muon", "spam"]
ClipName = Literal["norm", "zclip", "adagc", "agc", "autoclip", "none"]


class Optimizer(Section):
    """The optimizer, and what acts on the gradient before it."""

    name: OptimizerName = "adamw"
    """`adamw` is torch's fused one (Loshchilov and Hutter 2017, 1711.05101); see
    docs/how-to/choose-an-optimizer.md for the others. `muon` updates matrices of the blocks by
    Muon and all else by AdamW."""
    learning_rate: Rate
    """Peak learning rate."""
    beta1: Share = 0.9
    """Decay of the first moment."""
    beta2: Share = 0.95
    """Decay of the second moment; 0.999 reacts too slowly to a burst of gradients."""
    eps: Rate = 1e-8
    """Added to sqrt(v); must stay well below sqrt(v)."""
    weight_decay: NonNegative = 0.1
    """Decay per step and unit of learning rate, on matrices only."""
    independent_decay: bool = False
    """Decay by `weight_decay` times the schedule's share of the peak, not times the rate."""
    decay_embeddings: bool = False
    """Whether embeddings decay; shrinking ones enlarge the early gradients."""
    momentum: Share = 0.95
    """Decay of the momentum (muon only)."""
    update_clip: Rate = 1.0
    """Largest RMS_t (stable-adamw) or RMS of the update (adamw-update-clip) that is not scaled
    down."""
    reset_every: Positive = 500
    """Steps between two resets of the moments (spam only)."""
    reset_warmup: Count = 150
    """Steps of the cosine re-warm after a reset (spam only)."""
    element_clip: Rate = 5000.0
    """Largest g^2 / v of an element (spam only)."""
    clip: ClipName = "norm"
    """What limits the gradient: `norm`, by its global norm; `zclip`, by its z-score; `adagc`, each
    tensor by its own history; `agc`, each output unit by its weights; `autoclip`, by a percentile
    of the past; `none`."""
    clip_norm: NonNegative = 1.0
    """Clip by global gradient norm; 0 = no clipping. For zclip and adagc, while their history is
    too short, and for zclip the largest norm at any time."""
    clip_z: Rate = 2.5
    """Largest z-score of the gradient norm (zclip)."""
    clip_ratio: Rate | None = None
    """Largest norm over the tensor's own average (adagc; default 1.05), or of a unit's gradient
    over its weights (agc; default 0.01)."""
    clip_percentile: Annotated[float, Field(gt=0, lt=100)] = 10.0
    """Percentile of all past gradient norms (autoclip)."""
    skip_spikes: bool = False
    """Make no update where loss or gradient norm exceed the mean of the last `skip_window` steps by
    `skip_sigmas` standard deviations. It gives way: once an eighth of the window was skipped, the
    level counts as new. Never a default: it hides the cause."""
    skip_window: Annotated[int, Field(ge=4, le=10**5)] = 128
    """Steps."""
    skip_sigmas: Rate = 6.0
    """Standard deviations."""
    shallow_gradient: Fraction = 1.0
    """Factor on the gradients of the first `shallow_layers` blocks. Under Adam a constant one
    cancels but for eps, the global clip and the first 1/(1-beta2) steps after a change."""
    shallow_layers: Count = 0
    """Blocks, from the first."""
