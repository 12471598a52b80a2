"""What numbers a recipe takes, and the base of its sections."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from surefoot.recipe.kinds import LARGEST

Positive = Annotated[int, Field(gt=0, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Size = Annotated[int, Field(gt=0, le=2**24)]
"""Of a vocabulary or a sequence: far above what is in use, far below what tokenizers and 32-bit
token files abort on."""
Width = Annotated[int, Field(gt=0, le=2**20)]
Sequences = Annotated[int, Field(gt=0, le=2**20)]
"""Of a batch; with Steps, any sample of a run has a number that fits in 64 bits."""
Steps = Annotated[int, Field(gt=0, le=10**9)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


Fraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class Section(BaseModel):
    """Base of all sections: frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True
    )
