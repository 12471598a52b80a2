"""Whether this machine can hold what a recipe asks for: a refusal instead of a killed process."""

import os

from surefoot.errors import RecipeError
from surefoot.recipe.recipe import Recipe
from surefoot.recipe.sections import Architecture
from surefoot.recipe.words import count, size

_FEWEST_THREADS = 64
"""So many threads are let through on any machine."""


def require_fits(recipe: Recipe, *, cpu: bool = True, ranks: int = 1) -> None:
    """Refuse what this machine cannot hold, before anything is built.

    Args:
        recipe: what is asked for.
        cpu: whether the model is trained in this machine's own memory; the threads are looked at
            in any case.
        ranks: processes that share the batch.

    Raises:
        RecipeError: more threads than are of use, or the message of :func:`check_size`.
    """
    check_threads(recipe, os.cpu_count() or 1)
    check_ranks(recipe, ranks)
    memory = physical_memory() if cpu else None
    if memory is not None:
        check_size(recipe, memory, ranks=ranks)


def check_ranks(recipe: Recipe, ranks: int) -> None:
    """Refuse a batch, or the first of a ramp, that has less than a sequence for each process.

    Raises:
        RecipeError: naming the field.
    """
    b = recipe.batch
    name, smallest = "global_size", b.global_size
    if b.ramp_from is not None and b.ramp_from < smallest:
        name, smallest = "ramp_from", b.ramp_from
    if smallest < ranks:
        raise RecipeError(
            f"batch.{name} = {smallest} is less than a sequence for each of {ranks} processes: "
            f"type --set batch.{name}={ranks}, or start fewer"
        )


def check_threads(recipe: Recipe, processors: int) -> None:
    """Refuse more than 4 threads a processor; torch ends the process on far too many.

    The bound depends on the machine, so it is none of the recipe itself: a run may be read, and its
    recipe checked, on a smaller one.

    Args:
        recipe: what is asked for.
        processors: of this machine.

    Raises:
        RecipeError: naming the number that goes.
    """
    threads, most = recipe.training.threads, max(_FEWEST_THREADS, 4 * processors)
    if threads is not None and threads > most:
        raise RecipeError(
            f"training.threads = {threads}, but this machine has {count(processors, 'processor')}: "
            f"expected at most {most}; {processors} is usual"
        )


def check_size(recipe: Recipe, memory_bytes: int, *, ranks: int = 1) -> None:
    """Refuse a run whose parameters and logits alone exceed the memory.

    A lower bound of what a step takes: 16 bytes a parameter (fp32 weights, gradients and AdamW's
    two moments) and the logits of one micro-batch with their gradient, 4 bytes each. Activations
    come on top, so what passes here may still be too much; what fails could never have run.

    Args:
        recipe: what is asked for.
        memory_bytes: of the machine.
        ranks: processes that share the batch.

    Raises:
        RecipeError: naming the two sizes, the memory, and what to lower.
    """
    a, b = recipe.architecture, recipe.batch
    number = parameters(a)
    states = 16 * number
    most = -(-b.global_size // ranks)
    micro = min(b.micro_size or most, most)
    sequence = 2 * 4 * a.sequence_length * a.vocab_size
    logits = micro * sequence
    if states + logits <= memory_bytes:
        return
    raise RecipeError(
        f"this needs {size(states + logits)} at least, and the machine has {size(memory_bytes)} of "
        f"memory: {size(states)} for {number} parameters (16 bytes each: weight, gradient and two "
        f"moments) and {size(logits)} for the logits of a micro-batch ({micro} sequences of "
        f"{a.sequence_length} tokens, {a.vocab_size} logits a token, 8 bytes each): "
        f"{_cure(memory_bytes, states, sequence)}"
    )


def parameters(architecture: Architecture) -> int:
    """How many parameters a decoder of this architecture has, without building it."""
    a = architecture
    matrices = 4 + (3 if a.activation == "swiglu" else 2) * (a.experts or 1)
    attention = 2 * a.width * (a.width + a.key_value_heads * a.head_size)
    feed_forward = (3 if a.activation == "swiglu" else 2) * a.width * a.inner_width
    if a.experts is not None:
        feed_forward = a.experts * (feed_forward + a.width)  # each with its row of the router
        matrices += 1
    # Norms of a block: before each sub-layer, behind it, or behind the sum.
    norms = {"none": 0, "sandwich": 4, "peri": 4}.get(a.norm_placement, 2) * a.width
    final = 0 if a.norm_placement in ("post", "b2t", "deepnorm", "none") else a.width
    if a.embedding_norm or a.norm_placement == "peri":
        final += a.width
    if a.qk_norm:
        heads = 2 if a.qk_norm_over == "head" else a.heads + a.key_value_heads
        norms += heads * a.head_size
    if a.layer_scale is not None:
        norms += 2 * a.width
    if a.sigma_reparam:
        norms += matrices  # one gamma each
    embeddings = (1 if a.tied_embeddings else 2) * a.vocab_size * a.width
    return a.layers * (attention + feed_forward + norms) + embeddings + final


def physical_memory() -> int | None:
    """Bytes of this machine's memory; None where the system does not say."""
    try:
        pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    return pages * page_size if pages > 0 and page_size > 0 else None


def _cure(memory: int, states: int, sequence: int) -> str:
    """What to lower: the batch if that is enough, else what the rest follows from."""
    fitting = (memory - states) // sequence
    if fitting >= 1:
        return f"type --set batch.micro_size={fitting} or less"
    if states > memory:
        return "lower architecture.width, layers or vocab_size"
    return "lower architecture.sequence_length or vocab_size, and set batch.micro_size=1"
