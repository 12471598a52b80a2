"""The decoder: pre-norm blocks of attention and feed-forward between an embedding and a head."""

import contextlib
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surefoot.model.attention import Attention
from surefoot.model.norms import LayerNorm, RMSNorm
from surefoot.model.rope import rope_tables
from surefoot.recipe import Architecture

# B sequences, T positions, C = width, V = vocabulary.


class FeedForward(nn.Module):
    """SwiGLU, w2(silu(w1 x) · w3 x), or GELU, w2(gelu(w3 x)) with the exact (erf) GELU.

    Source: Shazeer 2020, 2002.05202.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        gated = a.activation == "swiglu"
        self.w1 = nn.Linear(a.width, a.inner_width, bias=False) if gated else None
        self.w2 = nn.Linear(a.inner_width, a.width, bias=False)
        self.w3 = nn.Linear(a.width, a.inner_width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        up = self.w3(x)
        hidden = F.gelu(up) if self.w1 is None else F.silu(self.w1(x)) * up
        output: Tensor = self.w2(hidden)
        return output


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.attention_norm = _norm(architecture)
        self.attention = Attention(architecture)
        self.feed_forward_norm = _norm(architecture)
        self.feed_forward = FeedForward(architecture)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, measured: list[Tensor] | None, sequences: int
    ) -> Tensor:
        """(B, T, C) -> (B, T, C); the arguments of :class:`Attention`."""
        x = x + self.attention(self.attention_norm(x), cos, sin, measured, sequences)
        output: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return output


class Decoder(nn.Module):
    """A pre-norm decoder language model.

    Parameters are fp32 and torch's default until :func:`surefoot.init.initialise` is called; run it
    under ``torch.autocast`` for bf16 or fp16. With tied embeddings there is no ``head``: the logits
    use the embedding's weight.

    Args:
        architecture: shape and switches.

    Attributes:
        attention_logit_max: (layers,) fp32, of the last measured forward pass, or None.

    Raises:
        ValueError: if heads do not divide the width, kv_heads do not divide the heads, or the head
            size is odd (a recipe reports these before).
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        if a.width % a.heads or a.heads % a.key_value_heads or a.head_size % 2:
            raise ValueError(
                f"width {a.width}, heads {a.heads}, kv_heads {a.key_value_heads}: expected heads "
                "that divide the width with an even head size, and kv_heads that divide the heads"
            )
        self.architecture = a
        self.embedding = nn.Embedding(a.vocab_size, a.width)
        self.layers = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = _norm(a)
        self.head = None if a.tied_embeddings else nn.Linear(a.width, a.vocab_size, bias=False)
        self.attention_logit_max: Tensor | None = None
        self._measured_sequences = 0

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at each position.

        Args:
            tokens: (B, T) int64, T at most ``architecture.sequence_length``.

        Returns:
            (B, T, V), in the autocast format if there is one.

        Raises:
            ValueError: if T is longer than the model's sequences.
        """
        a = self.architecture
        length = tokens.shape[1]
        if length > a.sequence_length:
            raise ValueError(
                f"{length} tokens: expected at most sequence_length = {a.sequence_length}"
            )
        sequences = self._measured_sequences
        measured: list[Tensor] | None = [] if sequences else None
        cos, sin = rope_tables(length, a.head_size, a.rope_theta, tokens.device)
        x = self.embedding(tokens)
        if a.input_factor != 1:
            x = x * a.input_factor
        for layer in self.layers:
            x = layer(x, cos, sin, measured, sequences)
        x = self.norm(x)
        if a.output_factor != 1:
            x = x * a.output_factor  # the same as scaling the logits, which are far larger
        if measured is not None:
            self.attention_logit_max = torch.stack(measured)
            self._measured_sequences = 0
        return F.linear(x, self.embedding.weight if self.head is None else self.head.weight)

    @contextlib.contextmanager
    def measure_attention_logits(self, sequences: int = 1) -> Iterator[None]:
        """Make the next forward pass inside record ``attention_logit_max``.

        The largest |q·k / sqrt(head_size)| over the causal part, per layer, q and k as they enter
        the product (after norm and rotation); on the device, nothing waits for it.

        Args:
            sequences: how many of the batch's first sequences are measured.
        """
        self.attention_logit_max = None
        self._measured_sequences = sequences
        try:
            yield
        finally:
            self._measured_sequences = 0

    def roles(self) -> dict[str, str]:
        """The role of each parameter by name, for :func:`surefoot.init.initialise`.

        Roles: embedding, attention_in, attention_out, feed_forward_in, feed_forward_out, head,
        norm.
        """
        return {name: _ROLES[name.split(".")[-2]] for name, _ in self.named_parameters()}


_ROLES = {
    "embedding": "embedding",
    "wq": "attention_in",
    "wk": "attention_in",
    "wv": "attention_in",
    "wo": "attention_out",
    "w1": "feed_forward_in",
    "w2": "feed_forward_out",
    "w3": "feed_forward_in",
    "q_norm": "norm",
    "k_norm": "norm",
    "attention_norm": "norm",
    "feed_forward_norm": "norm",
    "norm": "norm",
    "head": "head",
}


def _norm(architecture: Architecture) -> nn.Module:
    kind = RMSNorm if architecture.norm == "rmsnorm" else LayerNorm
    return kind(architecture.width, architecture.norm_eps)
