"""To and from folders of the transformers library, with equal logits.

::

    from pathlib import Path
    from surefoot.export import from_transformers, to_transformers
    to_transformers(model, Path("tokenizer.json"), Path("exported"), end_of_text=0)
    architecture, state, tokenizer_path = from_transformers(Path("exported"))
    model = Decoder(architecture)
    model.load_state_dict(state)
"""

from surefoot.export.classes import FAMILIES
from surefoot.export.families import Family, family_of
from surefoot.export.read import from_transformers, read_config
from surefoot.export.write import to_transformers

__all__ = [
    "FAMILIES",
    "Family",
    "family_of",
    "from_transformers",
    "read_config",
    "to_transformers",
]
