"""Run folders: everything that is known of a run, safe against kill -9 at any instant.

::

    from surefoot import runs
    from surefoot.records import StepRecord, TrainSpec

    with runs.RunWriter.create("runs/mine", TrainSpec(name="mine"), {}, {}) as writer:
        writer.append(StepRecord(step=1, values={"loss": 10.8}))
        writer.flush()                      # rows through step 1 are durable ...
        writer.ledger.append("checkpoint", step=1)   # ... so checkpoint 1 may be committed

    run = runs.open("runs/mine")            # also while it is written, or after a kill
    run.signals                             # polars frame: step, attempt, loss, ...
    run.problems                            # what could not be used, and why

Rows that were compacted (by ``flush`` or after 512 steps) open in plain polars too::

    polars.read_parquet("runs/mine/signals/*.parquet").unique(["attempt", "step"]).sort("step")
"""

from surefoot.runs.durable import fsync_dir, fsync_file, storage_errors, write_atomic
from surefoot.runs.faults import crash_point
from surefoot.runs.folder import RunWriter
from surefoot.runs.layout import PLACES
from surefoot.runs.ledger import Ledger
from surefoot.runs.reading import all_attempts
from surefoot.runs.reading import open_run as open
from surefoot.runs.spec import read_environment, read_spec, write_environment, write_spec

__all__ = [
    "PLACES",
    "Ledger",
    "RunWriter",
    "all_attempts",
    "crash_point",
    "fsync_dir",
    "fsync_file",
    "open",
    "read_environment",
    "read_spec",
    "storage_errors",
    "write_atomic",
    "write_environment",
    "write_spec",
]
