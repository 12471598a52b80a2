"""Which charts a report has, and from which signals; the order is that of the page."""

from dataclasses import dataclass, field

from surefoot.records import CATALOGUE, Run
from surefoot.report.columns import Curve, Grid, curve, grid, largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart.

    Attributes:
        key: its id in the page.
        title: its heading.
        signals: catalogue name and label of each line; one name for a heat map.
        log: whether the axis is logarithmic.
        heat: whether it is a heat map of places over steps.
        level: dotted path in the spec of a value to draw as a horizontal line, and its label.
        expected: whether a run that has none of it should hear so.
    """

    key: str
    title: str
    signals: tuple[tuple[str, str], ...]
    log: bool = False
    heat: bool = False
    level: tuple[str, str] | None = None
    expected: bool = True

    @property
    def about(self) -> str:
        """What is drawn: the definitions of the catalogue, with units."""
        parts = []
        for name, label in self.signals:
            signal = CATALOGUE[name]
            unit = "" if signal.unit == "1" else f" ({signal.unit})"
            named = f"{label}: " if len(self.signals) > 1 else ""
            parts.append(f"{named}{signal.definition}{unit}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run has of a panel: curves, or a grid for a heat map."""

    panel: Panel
    curves: tuple[tuple[str, Curve], ...] = ()
    grid: Grid | None = None
    level: tuple[str, float] | None = field(default=None)


PANELS = (
    Panel(
        key="loss",
        title="Loss",
        signals=(("loss", "training"), ("validation_loss", "validation")),
    ),
    Panel(
        key="grad_norm",
        title="Gradient norm",
        signals=(("grad_norm", "gradient norm"),),
        log=True,
        level=("optimizer.clip_norm", "clipped above"),
    ),
    Panel(
        key="grad_norm_places",
        title="Gradient norm by layer",
        signals=(("grad_norm", "gradient norm"),),
        heat=True,
    ),
    Panel(
        key="learning_rate",
        title="Learning rate",
        signals=(("learning_rate", "learning rate"),),
    ),
    Panel(
        key="attention_logit_max",
        title="Largest attention logit",
        signals=(("attention_logit_max", "largest attention logit"),),
    ),
    Panel(
        key="log_z",
        title="Log Z",
        signals=(("log_z", "mean"), ("log_z_abs_max", "largest magnitude")),
    ),
    Panel(
        key="adam_rms",
        title="Adam RMS",
        signals=(("adam_rms", "Adam RMS"),),
        log=True,
    ),
    Panel(
        key="second_moment_lag",
        title="Gradient over second moment",
        expected=False,
        signals=(("second_moment_lag", "lag"),),
        log=True,
    ),
    Panel(
        key="adam_update",
        title="Adam's direction",
        expected=False,
        signals=(
            ("adam_update_rms", "RMS"),
            ("update_bimodality", "bimodality"),
            ("update_large_share", "share beyond 0.8"),
        ),
    ),
    Panel(
        key="adam_agreement",
        title="Gradient and momentum, second moment and eps",
        expected=False,
        signals=(
            ("grad_cosine", "cosine of gradient and momentum"),
            ("eps_share", "share of v below eps"),
        ),
    ),
    Panel(
        key="routers",
        title="Routers",
        expected=False,
        signals=(
            ("router_entropy", "entropy"),
            ("expert_load_max", "busiest expert over its share"),
            ("tokens_dropped", "share dropped"),
        ),
    ),
    Panel(
        key="update_ratio",
        title="Update to weight ratio",
        signals=(("update_ratio", "update to weight ratio"),),
        log=True,
    ),
    Panel(
        key="tokens_per_second",
        title="Throughput",
        signals=(("tokens_per_second", "throughput"),),
    ),
)


def measure(run: Run, panel: Panel) -> Measured | None:
    """What ``run`` has of ``panel``; None if nothing.

    A per-place signal without a column of its own for the whole model is drawn as its largest
    value over the places.
    """
    if panel.heat:
        found = grid(run, panel.signals[0][0])
        return None if found is None else Measured(panel=panel, grid=found)
    curves = []
    for name, label in panel.signals:
        line = curve(run, name)
        if line is None:
            places = grid(run, name)
            line = None if places is None else largest(places)
        if line is not None:
            curves.append((label, line))
    if not curves:
        return None
    level = None
    if panel.level is not None:
        path, label = panel.level
        value = run.spec.stated().get(path)
        # 0 stands for "no clipping": there is no line to draw then.
        level = (label, float(value)) if value else None
    return Measured(panel=panel, curves=tuple(curves), level=level)
