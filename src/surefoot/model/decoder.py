"""The decoder: blocks of attention and feed-forward between an embedding and a head."""

import contextlib
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surefoot.model.block import Block
from surefoot.model.experts import Experts
from surefoot.model.norms import make_norm
from surefoot.model.placement import PLACEMENTS
from surefoot.model.roles import role_of
from surefoot.model.rope import rope_tables
from surefoot.model.routing import RouterSums, stack_router_sums
from surefoot.model.spectral import sigma_reparametrise
from surefoot.recipe import Architecture

# B sequences, T positions, C = width, H heads, V = vocabulary.


class Decoder(nn.Module):
    """A decoder language model; pre-norm if its architecture does not say otherwise.

    Parameters are fp32 and torch's default until :func:`surefoot.init.initialise` is called; run it
    under ``torch.autocast`` for bf16 or fp16. With tied embeddings there is no ``head``: the logits
    use the embedding's weight, and ``embedding_gradient`` shrinks the gradient that comes through
    the input only.

    Args:
        architecture: shape and switches.

    Attributes:
        attention_logit_max: (layers,) fp32, of the last measured forward pass, or None.
        attention_head_logit_max: (layers, H) fp32, likewise.
        router_sums: of the last forward pass of a mixture of experts, else None.

    Raises:
        ValueError: if heads do not divide the width, kv_heads do not divide the heads, or the head
            size is odd (a recipe reports these before).

    Sources of the switches at the embedding and the head: Embed Detach, Zeng et al. 2022,
    2210.02414; Scaled Embed and Embed LN, Takase et al. 2023, 2312.16903; soft cap, Gemma 2,
    2408.00118.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        if a.width % a.heads or a.heads % a.key_value_heads or a.head_size % 2:
            raise ValueError(
                f"width {a.width}, heads {a.heads}, kv_heads {a.key_value_heads}: expected heads "
                "that divide the width with an even head size, and kv_heads that divide the heads"
            )
        norms = PLACEMENTS[a.norm_placement]
        self.architecture = a
        self.embedding = nn.Embedding(a.vocab_size, a.width)
        self.embedding_norm = make_norm(a) if a.embedding_norm or norms.on_embedding else None
        self.layers = nn.ModuleList(Block(a, number) for number in range(1, a.layers + 1))
        self.norm = make_norm(a) if norms.final else None
        self.head = None if a.tied_embeddings else nn.Linear(a.width, a.vocab_size, bias=False)
        if a.sigma_reparam:
            sigma_reparametrise(self.layers)
        self.attention_logit_max: Tensor | None = None
        self.attention_head_logit_max: Tensor | None = None
        self.router_sums: RouterSums | None = None
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
        x = self._embedded(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin, measured, sequences)
        if a.experts is not None:
            self.router_sums = stack_router_sums(self._routers())
        if self.norm is not None:
            x = self.norm(x)
        if a.output_factor != 1:
            x = x * a.output_factor  # the same as scaling the logits, which are far larger
        if measured is not None:
            self.attention_head_logit_max = torch.stack(measured)
            self.attention_logit_max = self.attention_head_logit_max.amax(dim=1)
            self._measured_sequences = 0
        logits = F.linear(x, self.embedding.weight if self.head is None else self.head.weight)
        return logits if a.logit_softcap is None else softcap(logits, a.logit_softcap)

    @contextlib.contextmanager
    def measure_attention_logits(self, sequences: int = 1) -> Iterator[None]:
        """Make the next forward pass inside record the largest attention logits.

        The largest |factor q·k| over the causal part, per layer and per head, q and k as they enter
        the product (after norm and rotation), before a soft cap; on the device, nothing waits for
        it.

        Args:
            sequences: how many of the batch's first sequences are measured.
        """
        self.attention_logit_max = self.attention_head_logit_max = None
        self._measured_sequences = sequences
        try:
            yield
        finally:
            self._measured_sequences = 0

    def roles(self) -> dict[str, str]:
        """The role of each parameter by name, for :func:`surefoot.init.initialise`.

        Roles: embedding, attention_in, attention_value, attention_out, feed_forward_in,
        feed_forward_out, router, head, norm, scale.
        """
        return {name: role_of(name) for name, _ in self.named_parameters()}

    def _embedded(self, tokens: Tensor) -> Tensor:
        a = self.architecture
        x: Tensor = self.embedding(tokens)
        if a.embedding_gradient != 1:
            # share · x + (1 - share) · detached x, in the form that leaves the values as they are.
            x = torch.lerp(x.detach(), x, a.embedding_gradient)
        if a.input_factor != 1:
            x = x * a.input_factor
        return x if self.embedding_norm is None else self.embedding_norm(x)

    def _routers(self) -> list[RouterSums]:
        experts = (layer.feed_forward for layer in self.layers)
        return [e.sums for e in experts if isinstance(e, Experts) and e.sums is not None]


def softcap(logits: Tensor, cap: float) -> Tensor:
    """Logits z as cap · tanh(z / cap), made in fp32 at least, in the dtype of the logits."""
    exact = torch.promote_types(logits.dtype, torch.float32)
    return (cap * torch.tanh(logits.to(exact) / cap)).to(logits.dtype)
