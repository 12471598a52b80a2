"""The architecture section: the decoder's shape and its switches."""

import math
from typing import Annotated, Literal

from pydantic import Field

from surefoot.recipe.bounds import Fraction, Positive, Rate, Section, Size, Width

Placement = Literal["pre", "post", "sandwich", "peri", "reordered", "b2t", "deepnorm", "none"]


class Architecture(Section):
    """A decoder; what is not set otherwise is a plain pre-norm one."""

    layers: Annotated[int, Field(gt=0, le=10**4)]
    """Blocks."""
    width: Width
    """Channels of the residual stream, d."""
    heads: Positive
    """Query heads; must divide the width, with an even head size (RoPE turns pairs)."""
    kv_heads: Positive | None = None
    """Key/value heads of grouped-query attention; must divide `heads`. Default: `heads`."""
    ff_width: Size | None = None
    """Inner channels of the feed-forward block. Default: 8/3 d rounded up to 32 for SwiGLU, 4 d
    for GELU."""
    vocab_size: Size
    """Rows of the embedding; the tokenizer is trained to this size, and may not exceed it."""
    sequence_length: Size
    """Tokens of a training sequence."""
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    """Normalisation of the residual stream."""
    norm_eps: Rate = 1e-6
    """Added to the variance; raise it for fp16."""
    activation: Literal["swiglu", "gelu"] = "swiglu"
    """Feed-forward kind."""
    rope_theta: Rate = 10000.0
    """Base of the rotary frequencies; raise it for long sequences only."""
    tied_embeddings: bool = False
    """Whether the head shares the embedding's weights."""
    norm_placement: Placement = "pre"
    """Where the norms of a block are: `pre` x + f(N(x)); `post` N(x + f(x)); `sandwich`
    x + N(f(N(x))); `peri`, the same with a norm behind the embedding; `reordered` x + N(f(x))
    (OLMo 2); `b2t`, post with a bottom-to-top shortcut; `deepnorm` N(residual_scale x + f(x));
    `none`, no norm at all (T-Fixup)."""
    residual_scale: Literal["auto"] | Rate = "auto"
    """Factor on the shortcut (deepnorm only). `auto`: (2 layers)^(1/4)."""
    layer_scale: Rate | None = None
    """First value of a trained factor on each channel of what a sub-layer writes (LayerScale)."""
    qk_norm: bool = True
    """RMSNorm on the queries and keys of each head, before RoPE: bounds the attention logits."""
    qk_norm_over: Literal["head", "width"] = "head"
    """What QK-norm normalises: each head by itself, or all heads together (OLMo 2)."""
    qk_clip: Rate | None = None
    """Largest attention logit beyond which the query and key weights of a head are scaled down
    after the update (QK-clip; 100 in Kimi K2). Needs no QK-norm."""
    attention_scale: Literal["auto", "mup"] | Rate = "auto"
    """Factor on q·k. `auto`: 1/sqrt(head size). `mup`: 8/head size, the same at 64."""
    attention_softcap: Rate | None = None
    """Attention logits are capped at plus or minus this by tanh (50 in Gemma 2)."""
    logit_softcap: Rate | None = None
    """Output logits are capped at plus or minus this by tanh (30 in Gemma 2)."""
    query_key_layer_scaling: bool = False
    """Divide q·k by the number of the layer and multiply it back within the fp32 softmax: keeps
    the product within fp16's range, and changes nothing else."""
    sigma_reparam: bool = False
    """Every matrix of the blocks as gamma W / sigma(W), sigma its spectral norm (sigmaReparam)."""
    embedding_scale: Literal["sqrt_width"] | Rate = 1.0
    """Factor on the embedding's output (input side only); `sqrt_width` is Scaled Embed."""
    embedding_norm: bool = False
    """A norm behind the embedding (Embed LN)."""
    embedding_gradient: Fraction = 1.0
    """Share of the gradient that reaches the embedding (Embed Detach; 0.1 in GLM-130B). Under Adam
    a constant factor cancels but for eps and the global clip."""
    head_scale: Literal["auto"] | Rate = "auto"
    """Factor on the logits. `auto`: 1, but with tied embeddings 4 / (d init.embedding_std), at most
    1: the token just read starts with a logit of 4, and the first loss is near ln V. Tied
    embeddings learn best with `embedding_scale = "sqrt_width"` and `embedding_std = "small"`."""

    experts: Positive | None = None
    """Feed-forward experts of each layer, to a few of which a router sends each token."""
    experts_per_token: Positive = 2
    """Experts that each token is sent to; not more than `experts`."""
    expert_capacity: Rate | None = None
    """Tokens an expert takes, over its even share; the rest is dropped. Default: no limit."""

    @property
    def head_size(self) -> int:
        """Channels of one head."""
        return self.width // self.heads

    @property
    def key_value_heads(self) -> int:
        """`kv_heads`, or its default."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def inner_width(self) -> int:
        """`ff_width`, or its default."""
        if self.ff_width is not None:
            return self.ff_width
        return 4 * self.width if self.activation == "gelu" else -(-8 * self.width // 96) * 32

    @property
    def shortcut_factor(self) -> float:
        """`residual_scale` as a number; 1 but for deepnorm."""
        if self.norm_placement != "deepnorm":
            return 1.0
        return float(
            (2 * self.layers) ** 0.25 if self.residual_scale == "auto" else self.residual_scale
        )

    @property
    def logit_factor(self) -> float:
        """`attention_scale` as a number."""
        if self.attention_scale == "auto":
            return 1 / math.sqrt(self.head_size)
        return 8 / self.head_size if self.attention_scale == "mup" else self.attention_scale

    @property
    def small_std(self) -> float:
        """sqrt(2/(5 d))."""
        return math.sqrt(2 / (5 * self.width))

    @property
    def input_factor(self) -> float:
        """`embedding_scale` as a number."""
        return (
            math.sqrt(self.width) if self.embedding_scale == "sqrt_width" else self.embedding_scale
        )

    @property
    def output_factor(self) -> float:
        """`head_scale` as a number; with `auto` and tied embeddings, for embeddings of std 1."""
        return self.output_factor_for(1.0)

    def output_factor_for(self, embedding_std: float) -> float:
        """`head_scale` as a number, for embeddings of this standard deviation.

        Behind the last norm the residual stream has RMS 1 and, at first, the direction of the
        embedding just read: with a tied head that token gets the logit d times embedding_std.
        """
        if self.head_scale != "auto":
            return self.head_scale
        return min(1.0, 4 / (self.width * embedding_std)) if self.tied_embeddings else 1.0
