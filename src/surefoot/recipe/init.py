"""The init section: a method, and what it leaves open."""

import math
from typing import Literal

from surefoot.recipe.bounds import Rate, Section, Width

InitMethod = Literal[
    "spike-no-more", "vanilla", "small", "megatron", "gpt2", "xavier", "he", "torch", "deepnorm",
    "wesar", "mup", "t-fixup",
]  # fmt: skip

PRESETS: dict[str, tuple[float | str, float | str, bool]] = {
    "spike-no-more": ("small", 1.0, True),
    "vanilla": ("small", "small", True),
    "small": ("small", "small", False),
    "megatron": (0.02, 0.02, True),
    "gpt2": (0.02, 0.02, True),
}
"""Methods with one standard deviation for all matrices: it, the embedding's, and whether outputs
are divided by sqrt(2 layers). ``vanilla`` is what Spike No More (2312.16903) compares with."""


class Init(Section):
    """Initialisation. What a method leaves open is set here; what it fixes cannot be."""

    method: InitMethod = "spike-no-more"
    """Where the weights start; see docs/how-to/start-well.md. Norms are 1 and biases 0 in all of
    them but `torch`."""
    std: Literal["small"] | Rate | None = None
    """Standard deviation of the matrices, for the methods that have a single one; `small` is
    sqrt(2/(5 d)) (Nguyen and Salazar 2019). Default: as the method says."""
    embedding_std: Literal["small"] | Rate | None = None
    """Standard deviation of the embedding, for the same methods; near 1 bounds the gradients of the
    first blocks. Default: as the method says."""
    depth_scaled_outputs: bool | None = None
    """Divide the attention and feed-forward output matrices by sqrt(2 layers), for the same
    methods. Default: as the method says."""
    wesar_std: Rate = 0.006324555320336759
    """The one standard deviation that all matrices are stored with (wesar only); sqrt(4e-5)."""
    base_width: Width | None = None
    """Width at which the rates were tuned (mup only). Default: `architecture.width`."""
    pretrained: str | None = None
    """A transformers folder whose weights to start from instead (what --init-from sets). A dense
    one starts every expert of a mixture of experts as a copy."""

    def standard_deviations(
        self, width: int, input_factor: float = 1.0
    ) -> tuple[float, float, bool] | None:
        """Of the matrices, of the embedding, and whether outputs are divided by sqrt(2 layers).

        With spike-no-more the embedding is 1 behind ``input_factor``, the model's own factor on it.

        None for a method whose standard deviations depend on each matrix.
        """
        preset = PRESETS.get(self.method)
        if preset is None:
            return None
        std, embedding_std, scaled = preset
        if self.method == "spike-no-more":
            embedding_std = 1 / input_factor
        found = [
            math.sqrt(2 / (5 * width)) if value == "small" else float(value)
            for value in (
                std if self.std is None else self.std,
                embedding_std if self.embedding_std is None else self.embedding_std,
            )
        ]
        if self.depth_scaled_outputs is not None:
            scaled = self.depth_scaled_outputs
        return found[0], found[1], scaled

    def table_std(self, width: int, layers: int, input_factor: float = 1.0) -> float:
        """Standard deviation of the embedding's table, under any method."""
        stds = self.standard_deviations(width, input_factor)
        if stds is not None:
            return stds[1]
        if self.method == "wesar":
            return self.wesar_std
        if self.method in ("torch", "mup"):
            return 1.0 if self.method == "torch" else 1 / input_factor
        shrunk = (9 * layers) ** -0.25 if self.method == "t-fixup" else 1.0
        return float(shrunk / math.sqrt(width))
