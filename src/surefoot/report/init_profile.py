"""A model before its first step, as terminal text and as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from surefoot.records import Finding, to_json
from surefoot.report.terminal import finding_lines, indented, not_checked_lines
from surefoot.report.text import by_weight, number, plain

if TYPE_CHECKING:
    from surefoot.probe import InitProfile, LayerProfile

ROWS = 16
"""Layers shown in the terminal; of more, the first, the last and evenly spaced ones between."""

COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("stream_rms", "stream", "RMS of the residual stream that enters the layer"),
    ("attention_rms", "+attn", "RMS of what attention adds to it"),
    ("feed_forward_rms", "+ff", "RMS of what the feed-forward block adds"),
    ("stream_gradient", "dL/dx", "norm of the gradient with respect to that stream"),
    ("parameter_gradient", "dL/dW", "norm of the gradient of the layer's parameters"),
    ("attention_bound", "|J| attn", "upper bound of the attention sub-layer's Jacobian"),
    ("feed_forward_bound", "|J| ff", "upper bound of the feed-forward sub-layer's Jacobian"),
    ("attention_sigma", "sigma", "standard deviation of what the norm before attention reads"),
    ("logit_std", "logits", "standard deviation of the attention logits"),
    ("entropy", "entropy", "attention entropy over that of uniform attention"),
)
"""Field of a layer, short heading, meaning."""
_LEGEND = (
    "stream, +attn, +ff: RMS; dL/dx, dL/dW: norms of gradients; |J|: upper bounds of Jacobians; "
    "sigma: of what the norm reads; entropy: of attention, 1 = uniform"
)


def init_summary(
    profile: "InitProfile",
    findings: Iterable[Finding],
    not_checked: Iterable[Mapping[str, str]] = (),
) -> RenderableType:
    """A rich renderable: what was built, a table by layer, findings, what was not checked.

    Args:
        profile: what was measured.
        findings: what is told of it, in any order.
        not_checked: what could not be judged: ``code`` and what it ``needs``.
    """
    blocks: list[RenderableType] = [Text(plain(profile.target), style="bold")]
    blocks += [indented(plain(line)) for line in (profile.model, shape_text(profile))]
    blocks += [indented(plain(note), "dim") for note in profile.notes]
    blocks += ["", _layers(profile), indented(_LEGEND, "dim"), ""]
    blocks += [indented(plain(line)) for line in headline(profile)]
    found = list(findings)
    blocks += ["", *finding_lines(by_weight(found))]
    blocks += [indented(plain(line), "dim") for line in about_findings(profile, found)]
    unchecked = list(not_checked)
    if unchecked:
        blocks += ["", *not_checked_lines(unchecked)]
    return Group(*blocks)


def init_json(profile: "InitProfile") -> dict[str, Any]:
    """The ``summary`` of ``surefoot check --init TARGET --format json``.

    Returns:
        The profile by field, with ``gradient_growth``, ``stream_growth``, ``added_rms``,
        ``growth_exponents`` and ``reduction``.
    """
    return {
        **to_json(profile),
        "reduction": profile.reduction,
        "gradient_growth": profile.gradient_growth,
        "stream_growth": profile.stream_growth,
        "added_rms": profile.added_rms,
        "growth_exponents": dict(profile.growth_exponents()),
    }


def about_findings(profile: "InitProfile", findings: Sequence[Finding]) -> list[str]:
    """How to take the findings, and where more is said of them; nothing if there are none."""
    if not findings:
        return []
    codes = sorted({finding.code for finding in findings})
    first = "INI002" if "INI002" in codes else codes[0]
    lines = []
    if profile.kind != "recipe" and all(finding.severity == "info" for finding in findings):
        lines.append(
            "These are remarks for who is about to pre-train from such weights. They need not mean "
            "trouble: the classes of LLaMA, Mistral and GPT-2 get some too, and models of these "
            "families have trained well, with long warm-ups and moderate learning rates."
        )
    return [*lines, f"More of each: surefoot explain {first}"]


def shape_text(profile: "InitProfile") -> str:
    """``32 layers, 4096 wide, 32 heads of 128, feed-forward 11008, vocabulary 32,000``."""
    s = profile.sizes
    kv = "" if s.kv_heads == s.heads else f" ({s.kv_heads} key/value)"
    experts = "" if s.experts == 1 else f", {s.experts_per_token} of {s.experts} experts"
    return (
        f"{s.layers} layers, {s.width} wide, {s.heads} heads{kv} of {s.head_size}, feed-forward "
        f"{s.ff_width}{experts}, vocabulary {s.vocab_size:,}, norms {profile.placement}"
    )


def headline(profile: "InitProfile") -> list[str]:
    """The numbers of the whole, a line each."""
    exponents = profile.growth_exponents()
    first = number(profile.layers[profile.lowest].stream_rms, 3)
    return [
        f"first loss {number(profile.loss)} nats (+-{number(profile.loss_error, 2)}), ln V "
        f"{number(profile.ln_vocab)}; output logits of standard deviation "
        f"{number(profile.logit_std, 3)}",
        f"stream from {first} before layer {profile.lowest} to {number(profile.stream_rms, 3)} "
        f"behind the last (growth exponent {number(exponents['activation'], 2)})",
        f"gradient of the stream before layer {profile.lowest} "
        f"{number(profile.gradient_growth, 3)} times that behind the last (growth exponent "
        f"{number(exponents['gradient'], 2)})",
        *table_texts(profile),
    ]


def table_texts(profile: "InitProfile") -> Iterator[str]:
    """How far each table can move, and how far rotary positions reach."""
    for table in profile.tables:
        reach = ""
        if table.reach is not None:
            reach = (
                f"; an element can be carried {number(table.reach, 2)} times as far in the run, "
                f"{number(table.warmup_reach, 2)} in the warm-up"
            )
        yield f"{table.name}: RMS {number(table.rms, 3)}{reach}"
    rotary = profile.rotary
    if rotary is not None:
        yield (
            f"rotary positions: theta {rotary.theta:g}, slowest turn in "
            f"{number(round(rotary.longest))} tokens; {rotary.share_beyond:.0%} of the channels do "
            f"not turn once in {profile.sequence_length:,}"
        )


def shown_layers(layers: Sequence["LayerProfile"], most: int = ROWS) -> list["LayerProfile"]:
    """All layers, or ``most`` of them evenly spaced with both ends."""
    if len(layers) <= most:
        return list(layers)
    return [layers[round(i * (len(layers) - 1) / (most - 1))] for i in range(most)]


def shown_columns(profile: "InitProfile") -> list[tuple[str, str, str]]:
    """The columns that have a value in some layer."""
    return [
        column
        for column in COLUMNS
        if any(getattr(layer, column[0]) is not None for layer in profile.layers)
    ]


def _layers(profile: "InitProfile") -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    columns = shown_columns(profile)
    table.add_column("layer", justify="right", no_wrap=True)
    for _, heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for layer in shown_layers(profile.layers):
        table.add_row(
            str(layer.layer), *(number(getattr(layer, field), 3) for field, _, _ in columns)
        )
    end = {"stream_rms": profile.stream_rms, "stream_gradient": profile.stream_gradient}
    table.add_row(
        "end", *(number(end[field], 3) if field in end else "" for field, _, _ in columns)
    )
    return table
