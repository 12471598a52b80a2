"""Model and optimizer as one flat table of tensors, and back.

Everything is addressed by the parameter's fully qualified name, never by its position: a regrouped
optimizer or a wrapped model (DDP, torch.compile) reads the same checkpoint.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from surefoot.checkpoint.storage import TensorInfo
from surefoot.errors import CheckpointError
from surefoot.records import Difference

_MACHINE = ("params", "foreach", "fused", "capturable", "differentiable")
"""Options of a group that say how this machine computes, not what: always the current ones."""


def training_tensors(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    extra: Mapping[str, Tensor] | None = None,
    *,
    like: Mapping[str, TensorInfo] | None = None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The live tensors of a training run: save them, or load into them in place.

    An optimizer creates its state on its first update, so a fresh one has nothing to load into.
    Adam's state is created here, as zeros; that of other optimizers as in ``like``.

    Args:
        model: may be wrapped by DistributedDataParallel or torch.compile; FSDP2's sharded
            parameters stay sharded.
        optimizer: its parameters must be the model's; None for the model alone.
        extra: more tensors to save along, such as a loss scale; named ``extra.NAME``.
        like: what the checkpoint to load holds (``CheckpointStore.tensors``).

    Returns:
        ``model.NAME``, ``optimizer.NAME.KEY`` and ``extra.NAME`` → tensors that share memory with
        the live ones; tied parameters come once, under their first name. And the optimizer's
        hyper-parameters as JSON values.

    Raises:
        ValueError: if the optimizer holds a parameter that the model does not have.
        TypeError: if the model's state holds anything but tensors.
    """
    inner = unwrap(model)
    tensors = {f"model.{name}": tensor for name, tensor in _model_tensors(inner)}
    tensors.update({f"extra.{name}": tensor for name, tensor in (extra or {}).items()})
    if optimizer is None:
        return tensors, {}
    names = _parameter_names(inner)
    values: dict[str, dict[str, Any]] = {}
    for group, parameter, name in _parameters(optimizer, names):
        state = _complete_state(optimizer, group, parameter, name, like or {})
        for key, value in state.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{name}.{key}"] = value.detach()
            elif value is not None:
                values.setdefault(name, {})[key] = value
    return tensors, {"groups": _groups(optimizer, names), "values": values}


def restore_training(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    tensors: Mapping[str, Tensor],
    hyper: Mapping[str, Any],
    *,
    hyper_parameters: Literal["current", "checkpoint"] = "current",
) -> tuple[Difference, ...]:
    """Put loaded tensors into the model and the optimizer, and settle the hyper-parameters.

    A loaded optimizer state usually brings its old hyper-parameters with it, unnoticed: a run was
    restarted with new betas and went on with the old ones (OPT-175B logbook, Zhang et al. 2022,
    arXiv 2205.01068). Here the current configuration prevails unless asked otherwise, and what
    differs is returned so that it can be told.

    Args:
        model: as for :func:`training_tensors`.
        optimizer: likewise.
        tensors: those of :func:`training_tensors`, loaded into, or others of the same names.
        hyper: the hyper-parameters that were saved.
        hyper_parameters: ``current`` leaves those of ``optimizer`` as they are; ``checkpoint``
            sets them to the saved ones.

    Returns:
        Saved (``a``) against current (``b``) hyper-parameters, wherever they differed before this
        call, as fields such as ``optimizer.groups[0].lr``.

    Raises:
        CheckpointError: if a tensor is missing, or if ``checkpoint`` is asked for and the groups
            hold other parameters than at the save.
    """
    live, current = training_tensors(
        model, optimizer, like={name: TensorInfo.of(tensor) for name, tensor in tensors.items()}
    )
    missing = sorted(live.keys() - tensors.keys())
    if missing:
        raise CheckpointError(f"the checkpoint lacks {', '.join(missing[:3])}")
    with torch.no_grad():
        for name, tensor in live.items():
            tensor.copy_(tensors[name])  # onto itself where it was loaded in place
    names = _parameter_names(unwrap(model))
    for _, parameter, name in _parameters(optimizer, names):
        optimizer.state[parameter].update(hyper["values"].get(name, {}))
    differences = _differences(hyper["groups"], current["groups"])
    if hyper_parameters == "checkpoint":
        _set_hyper_parameters(optimizer, names, hyper["groups"])
    return differences


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel and torch.compile, in whichever order."""
    while True:
        if isinstance(model, DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def _plain(name: str) -> str:
    """A name without the marks that torch.compile leaves of modules compiled one by one."""
    return name.replace("_orig_mod.", "")


def _model_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} of the model's state: expected a tensor, got {type(tensor)}")
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield _plain(name), tensor.detach()


def _parameter_names(model: nn.Module) -> dict[int, str]:
    return {id(parameter): _plain(name) for name, parameter in model.named_parameters()}


def _parameters(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str]
) -> Iterator[tuple[dict[str, Any], Tensor, str]]:
    for number, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise ValueError(
                    f"group {number} of the optimizer holds a parameter of shape "
                    f"{list(parameter.shape)} that the model does not have"
                )
            yield group, parameter, names[id(parameter)]


def _complete_state(
    optimizer: torch.optim.Optimizer,
    group: Mapping[str, Any],
    parameter: Tensor,
    name: str,
    like: Mapping[str, TensorInfo],
) -> dict[str, Any]:
    state: dict[str, Any] = optimizer.state[parameter]
    if isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
        if not state and parameter.requires_grad:
            state.update(_adam_state(group, parameter))
        return state
    prefix = f"optimizer.{name}."
    for stored, info in like.items():
        key = stored.removeprefix(prefix)
        if stored.startswith(prefix) and "." not in key and key not in state:
            shaped_as_parameter = info.shape == tuple(parameter.shape)
            state[key] = (
                torch.zeros_like(parameter, dtype=info.dtype)
                if shaped_as_parameter
                else torch.zeros(info.shape, dtype=info.dtype, device=parameter.device)
            )
    return state


def _adam_state(group: Mapping[str, Any], parameter: Tensor) -> dict[str, Tensor]:
    """What Adam's first update would create, before it counts that update."""
    on_device = group.get("fused") or group.get("capturable")
    double = torch.get_default_dtype() is torch.float64 and not group.get("fused")
    names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group.get("amsgrad") else [])]
    step = torch.zeros(
        (),
        dtype=torch.float64 if double else torch.float32,
        device=parameter.device if on_device else "cpu",
    )
    moments = {
        name: torch.zeros_like(parameter, memory_format=torch.preserve_format).detach()
        for name in names
    }
    return {"step": step, **moments}


def _groups(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> list[dict[str, Any]]:
    return [
        {
            "parameters": [names[id(parameter)] for parameter in group["params"]],
            **{key: _as_json(value) for key, value in group.items() if key not in _MACHINE},
        }
        for group in optimizer.param_groups
    ]


def _as_json(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.item()  # a learning rate on the device
    return list(value) if isinstance(value, tuple) else value


def _differences(
    saved: list[dict[str, Any]], current: list[dict[str, Any]]
) -> tuple[Difference, ...]:
    found: list[tuple[str, Any, Any]] = []
    if len(saved) != len(current):
        found.append(("optimizer.groups", len(saved), len(current)))
    for number, (old, new) in enumerate(zip(saved, current, strict=False)):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                found.append((f"optimizer.groups[{number}].{key}", old.get(key), new.get(key)))
    return tuple(Difference(kind="asked", field=f, a=a, b=b) for f, a, b in found)


def _set_hyper_parameters(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str], saved: list[dict[str, Any]]
) -> None:
    by_parameters = {frozenset(group["parameters"]): group for group in saved}
    for number, group in enumerate(optimizer.param_groups):
        mine = frozenset(names[id(parameter)] for parameter in group["params"])
        if mine not in by_parameters:
            raise CheckpointError(
                f"group {number} of the optimizer holds other parameters than any group saved: "
                "its hyper-parameters cannot be taken from the checkpoint; use the current ones"
            )
        for key, value in by_parameters[mine].items():
            if key == "parameters" or key not in group:
                continue
            if isinstance(group[key], Tensor):
                group[key].fill_(value)
            else:
                group[key] = tuple(value) if isinstance(group[key], tuple) else value
