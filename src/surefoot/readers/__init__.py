"""Reads what other trainers leave behind: logs to a Run, configurations to a TrainSpec. No torch.

::

    from surefoot.readers import read_run, read_spec

    run = read_run("train.log")                  # told by its contents; gz, zst, folders too
    run.signals                                  # polars frame: step, attempt, loss, ...
    run.reading["format"], run.reading["sure"]
    spec = read_spec("args.txt", "ds_config.json")

Nothing that is read is ever executed or unpickled.
"""

from surefoot.readers.configs import Configs, read_configs, read_spec
from surefoot.readers.follow import Following
from surefoot.readers.run import read_run

__all__ = ["Configs", "Following", "read_configs", "read_run", "read_spec"]
