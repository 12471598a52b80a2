"""States of the random generators as uint8 tensors, so that they ride in a checkpoint.

Each rank has its own, under its own name. A run that goes on with another number of processes, or
on a machine with other devices, has generators that were never saved, and saved ones without an
owner: :func:`is_dispensable` tells which names may be missing on either side. Such a generator
stays as it was seeded.
"""

import random
import re
import struct
from collections.abc import Mapping

import torch
from torch import Tensor

from surefoot.checkpoint.ranks import Ranks
from surefoot.errors import CheckpointError

# Python's Mersenne Twister: version, 624 words and a position, and the normal deviate kept back.
# A fixed length whatever the state, as a checkpoint is loaded into tensors of the saved shape.
_PYTHON = struct.Struct("<I625I?d")

_DISPENSABLE = re.compile(r"random\.rank(\d+\.cuda|[1-9]\d*\..*)")


def capture_random() -> dict[str, Tensor]:
    """The states of Python's and torch's global generators (CPU, and the current CUDA device).

    Returns:
        Names such as ``random.rank0.torch`` (of this process's rank) → uint8 tensors on the CPU,
        copies.
    """
    version, words, kept_back = random.getstate()
    packed = _PYTHON.pack(version, *words, kept_back is not None, kept_back or 0.0)
    prefix = _prefix()
    states = {
        prefix + "python": torch.frombuffer(bytearray(packed), dtype=torch.uint8),
        prefix + "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        states[prefix + "cuda"] = torch.cuda.get_rng_state()
    return states


def restore_random(tensors: Mapping[str, Tensor]) -> None:
    """Set this rank's generators to the states of :func:`capture_random`; ignores other tensors.

    Raises:
        CheckpointError: if a state is missing or is none.
    """
    prefix = _prefix()
    try:
        version, *words, has, kept_back = _PYTHON.unpack(_bytes(tensors[prefix + "python"]))
        random.setstate((version, tuple(words), kept_back if has else None))
        torch.set_rng_state(tensors[prefix + "torch"].cpu())
        if torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors[prefix + "cuda"].cpu())
    except KeyError as error:
        raise CheckpointError(f"{error.args[0]} is missing among the loaded tensors") from None
    except (struct.error, ValueError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{prefix}*: this is no state of a generator: {error}") from error


def is_dispensable(name: str) -> bool:
    """Whether a tensor may be missing in a checkpoint, or be left unread, by its name."""
    return _DISPENSABLE.fullmatch(name) is not None


def _prefix() -> str:
    return f"random.rank{Ranks().rank}."


def _bytes(tensor: Tensor) -> bytes:
    return tensor.cpu().contiguous().numpy().tobytes()
