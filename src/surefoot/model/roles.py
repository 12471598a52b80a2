"""What each parameter of the decoder is for, by its name."""

_ROLES = {
    "embedding": "embedding",
    "wq": "attention_in",
    "wk": "attention_in",
    "wv": "attention_value",
    "wo": "attention_out",
    "w1": "feed_forward_in",
    "w2": "feed_forward_out",
    "w3": "feed_forward_in",
    "router": "router",
    "head": "head",
}
"""By the name of the module; one that ends in "norm" or "layer_scale" has that role."""


def role_of(name: str) -> str:
    """The role of a parameter of a :class:`surefoot.model.Decoder`.

    A matrix that is re-parameterised keeps its role; what it is re-parameterised with is a scale.

    Raises:
        KeyError: if the decoder has no module of that name.
    """
    path, inner, rest = name.partition(".parametrizations.")
    module = (path if inner else name.rpartition(".")[0]).rpartition(".")[-1]
    if inner and not rest.partition(".")[2].startswith("original"):
        return "scale"
    if module.endswith("norm"):
        return "norm"
    if module.endswith("layer_scale"):
        return "scale"
    return _ROLES[module]
