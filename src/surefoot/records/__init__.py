"""The nouns everything speaks in: frozen, slotted dataclasses that import nothing else of surefoot.

``TrainSpec`` (asked) and ``Run`` (done); ``Signal`` and ``StepRecord`` (measured); ``Verdict``,
``Incident`` and ``Finding`` (judged); ``Action`` (to do); ``Diff`` (compared). Every one of them
goes to strict JSON and back::

    from surefoot.records import Finding, from_json, to_json
    finding = from_json(Finding, json.loads(text))
"""

from surefoot.records.action import (
    Action,
    Halt,
    ResetMoments,
    Rewind,
    ScaleLR,
    SetBetas,
    SetClip,
    SetEps,
    SkipUpdate,
)
from surefoot.records.catalogue import (
    CATALOGUE,
    READ,
    Signal,
    is_integer_signal,
    is_volatile,
    signal_of,
    split_name,
)
from surefoot.records.finding import SEVERITIES, Finding, Incident, Place, Severity
from surefoot.records.jsonable import from_json, number_from_json, number_to_json, to_json
from surefoot.records.run import CheckpointInfo, Diff, Difference, Event, Run
from surefoot.records.spec import (
    FORMAT,
    ArchitectureSpec,
    BatchSpec,
    DataSpec,
    InitSpec,
    IntervalSpec,
    LossSpec,
    OptimizerSpec,
    ParallelismSpec,
    PrecisionSpec,
    ScheduleSpec,
    Source,
    TrainSpec,
)
from surefoot.records.step import Status, StepRecord, Verdict

SCHEMA = 1
"""Version of the JSON written by the commands. Adding a key keeps it; changing one raises it."""

__all__ = [
    "CATALOGUE",
    "FORMAT",
    "READ",
    "SCHEMA",
    "SEVERITIES",
    "Action",
    "ArchitectureSpec",
    "BatchSpec",
    "CheckpointInfo",
    "DataSpec",
    "Diff",
    "Difference",
    "Event",
    "Finding",
    "Halt",
    "Incident",
    "InitSpec",
    "IntervalSpec",
    "LossSpec",
    "OptimizerSpec",
    "ParallelismSpec",
    "Place",
    "PrecisionSpec",
    "ResetMoments",
    "Rewind",
    "Run",
    "ScaleLR",
    "ScheduleSpec",
    "SetBetas",
    "SetClip",
    "SetEps",
    "Severity",
    "Signal",
    "SkipUpdate",
    "Source",
    "Status",
    "StepRecord",
    "TrainSpec",
    "Verdict",
    "from_json",
    "is_integer_signal",
    "is_volatile",
    "number_from_json",
    "number_to_json",
    "signal_of",
    "split_name",
    "to_json",
]
