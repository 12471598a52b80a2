"""What a field of a recipe means, as text: for ``surefoot explain``."""

from pydantic import BaseModel

from surefoot.errors import UsageError, nearest
from surefoot.recipe.kinds import default_words, expected, section_in
from surefoot.recipe.messages import all_names
from surefoot.recipe.recipe import Recipe


def field_text(name: str) -> str | None:
    """Meaning, what it takes and its default; None if no recipe has such a field.

    Args:
        name: dotted, ``optimizer.eps``, or the last part of it alone if no other field has it.

    Raises:
        UsageError: if several fields end so, naming them.
    """
    names = [full for full in all_names(Recipe) if name in (full, full.rpartition(".")[2])]
    if name not in names and len(names) > 1:
        raise UsageError(f"{name!r} is the name of several fields: {', '.join(names)}")
    if not names:
        return None
    full = name if name in names else names[0]
    section: type[BaseModel] = Recipe
    for part in full.replace("[0]", "").split("."):
        field = section.model_fields[part]
        section = section_in(field.annotation) or section
    inner = section_in(field.annotation)
    if inner is not None:
        fields = "\n".join(f"  {key}" for key in inner.model_fields)
        return f"[{full}]\n\n{(inner.__doc__ or '').strip()}\n\nFields:\n{fields}"
    words = " ".join((field.description or "").split())
    default = default_words(field)
    tail = {"": "", "required": "\n\nRequired."}.get(default, f"\n\nDefault: {default}")
    return f"{full}\n\n{words}\n\nTakes: {expected(field)}{tail}"


def similar_field(name: str) -> str:
    """A hint at the field that was perhaps meant, or ""."""
    return nearest(name, all_names(Recipe))
