"""How strict the thresholds must be for a stated rate of false alarms."""

DEFAULT_RATE = 0.2


def strictness(rate: float) -> float:
    """Factor on the thresholds."""
    return 1.0
