r"""Role maps of model families of transformers: data, a file a group of families.

A family is a table of patterns. To add one, write a file like these and register it::

    patterns = {r"table\.weight": "embedding", r"attention\.out\.weight": "attention_out"}
    FAMILIES.register("my_model")(Family(patterns=patterns, placement="pre"))
"""

from surefoot.init.families import gemma, gpt, llama
from surefoot.init.families.family import FAMILIES, Family, Fused, config_of, family_of

__all__ = ["FAMILIES", "Family", "Fused", "config_of", "family_of", "gemma", "gpt", "llama"]
