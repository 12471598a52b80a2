"""Draw every parameter from a generator of its own, with the spread that its role asks for."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from surefoot.errors import UsageError
from surefoot.init import methods  # noqa: F401  (registers them)
from surefoot.init.layout import Layout, Weight, bias_weight, layouts_of, owner
from surefoot.init.method import METHODS, Method, Spread
from surefoot.init.roles import CONSTANT, plain_name, require_complete, unwrapped
from surefoot.init.shape import Shape, shape_of
from surefoot.recipe import Init


def standard_deviation(role: str, init: Init, *, width: int, layers: int) -> float:
    """Standard deviation of the weights of a role, one of ``ROLES`` that is drawn.

    Embeddings of standard deviation near 1 keep the shortcut large, outputs divided by
    sqrt(2 layers) keep the sub-layers small: the two conditions under which gradients do not grow
    towards the first blocks (Takase et al. 2023, 2312.16903). ``small`` is sqrt(2/(5 width))
    (Nguyen and Salazar 2019, 1910.05895).

    Raises:
        UsageError: for a method whose standard deviations depend on the shape of each matrix.
    """
    if init.standard_deviations(width) is None:
        raise UsageError(f"init.method = {init.method!r} has no standard deviation by role")
    weight = Weight(name="", role=role, fan_in=width, fan_out=width)
    return method_of(init).spread(weight, Shape(width=width, layers=layers)).std


def method_of(init: Init) -> Method:
    """The method that a recipe asks for."""
    return METHODS.lookup(init.method).from_recipe(init)


def initialise(
    model: nn.Module,
    roles: Mapping[str, str],
    init: Init,
    *,
    width: int | None = None,
    layers: int | None = None,
    seed: int,
) -> None:
    """Set every parameter in place, but for those of the role ``scale``.

    Each tensor is drawn on the CPU in fp32 from a generator seeded by ``seed`` and its name, so
    that the values depend on neither device, dtype, order of the parameters nor the other layers,
    nor on a re-parameterisation.

    Args:
        model: any module; a parameter shared by two names is set once, under its first name.
        roles: parameter name to role, for every parameter.
        init: method and standard deviations.
        width: channels of the residual stream. Default: those of the embedding.
        layers: blocks, for the output matrices. Default: as counted in the names.
        seed: of the whole model.

    Raises:
        UsageError: if a parameter has no role, a role is unknown, a name is no parameter, or the
            method is not defined for the model; the model is untouched then.
    """
    require_complete(model, roles)
    shape = shape_of(model, roles, width=width, layers=layers)
    draw(model, roles, method_of(init), shape, seed)


@torch.no_grad()
def draw(
    model: nn.Module, roles: Mapping[str, str], method: Method, shape: Shape, seed: int
) -> None:
    """Set every parameter by a method; see :func:`initialise`.

    Raises:
        UsageError: if the method is not defined for the model, which is untouched then.
    """
    _, prefix = unwrapped(model)
    method.check(model, roles, shape)
    _reset_scales(model, roles)
    layouts = layouts_of(model, roles)
    for name, parameter in model.named_parameters():  # all that is refused, before any is set
        if name in layouts:
            list(layouts[name].parts(parameter, plain_name(name), roles[name]))
    for name, parameter in model.named_parameters():
        role = roles[name]
        if role == "scale":
            continue
        generator = _generator(seed, plain_name(name).removeprefix(prefix))
        if role in CONSTANT:
            beside = bias_weight(model, name) if role == "bias" else None
            if beside is None or not method.draws_biases:
                parameter.fill_(CONSTANT[role])
            else:
                drawn = torch.empty(parameter.shape, dtype=torch.float32)
                parameter.copy_(_fill(drawn, method.spread(beside, shape), generator))
            continue
        parameter.copy_(_drawn(parameter, name, role, layouts[name], method, shape, generator))
        module, _ = owner(model, plain_name(name))
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            parameter[module.padding_idx].zero_()  # as torch does: it gets no gradient
    method.set_scales(model, roles, shape)


def _reset_scales(model: nn.Module, roles: Mapping[str, str]) -> None:
    """Bring modules that hold nothing but scales to their beginning: a model may have been used."""
    for path, module in model.named_modules():
        own = [f"{path}.{name}" for name, _ in module.named_parameters(recurse=False)]
        reset = getattr(module, "reset_parameters", None)
        if own and reset is not None and all(roles.get(name) == "scale" for name in own):
            reset()


def reparametrise(model: nn.Module, roles: Mapping[str, str], init: Init) -> None:
    """Change what the parameters of a model are, if the method asks for that: wesar alone does.

    Called before an optimizer is made, on a resume too; the values are set by :func:`initialise`,
    whose ``roles`` are those of the changed model.

    Raises:
        UsageError: if a parameter has no role, or the method is not defined for the model.
    """
    require_complete(model, roles)
    method_of(init).reparametrise(model, roles)


def rate_factors(
    model: nn.Module, roles: Mapping[str, str], init: Init, *, width: int | None = None
) -> dict[str, float]:
    """Factors on the learning rate, by parameter; empty where the method has none.

    Args:
        model: any module.
        roles: parameter name to role, for every parameter.
        init: method.
        width: channels of the residual stream. Default: those of the embedding.
    """
    return factors(model, roles, method_of(init), width=width)


def factors(
    model: nn.Module, roles: Mapping[str, str], method: Method, *, width: int | None
) -> dict[str, float]:
    """As :func:`rate_factors`, by a method."""
    if type(method).rate_factor is Method.rate_factor:
        return {}
    shape = shape_of(model, roles, width=width)
    return {name: method.rate_factor(roles[name], shape) for name, _ in model.named_parameters()}


def _drawn(
    parameter: Tensor,
    name: str,
    role: str,
    layout: Layout,
    method: Method,
    shape: Shape,
    generator: torch.Generator,
) -> Tensor:
    drawn = torch.empty(parameter.shape, dtype=torch.float32)
    parts = list(layout.parts(drawn, plain_name(name), role))
    if len(parts) == 1:
        return _fill(drawn, method.spread(parts[0][0], shape), generator)
    for weight, view in parts:
        part = torch.empty(view.shape, dtype=torch.float32)
        view.copy_(_fill(part, method.spread(weight, shape), generator))
    return drawn


def _fill(tensor: Tensor, spread: Spread, generator: torch.Generator) -> Tensor:
    if spread.uniform:
        bound = 3**0.5 * spread.std
        return tensor.uniform_(-bound, bound, generator=generator)
    return tensor.normal_(0.0, spread.std, generator=generator)


def _generator(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
