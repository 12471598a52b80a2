"""Configurations of other trainers: files to one TrainSpec, in which every field has its source.

::

    from surefoot.readers import read_configs

    found = read_configs("launch.sh", "ds_config.json")
    found.spec.optimizer.eps, found.spec.sources["optimizer.eps"]   # value; file, line, key
    found.findings          # CFG001 contradictions, CFG002 keys that were not understood
    found.unresolved        # what a shell variable or "auto" left open

The way of a file: ``documents`` parses it into leaves with lines, in every language its text can
be read in; ``reading`` asks the formats in ``trainers`` which of them knows its keys; that format
turns keys into statements about fields (``formats``); ``merge`` puts the files together and names
contradictions; then come what the trainer fills in, and what follows (``derive``).
"""

from surefoot.readers.configs.formats import ConfigFormat, Draft, Noted, Statement, To
from surefoot.readers.configs.reading import (
    ConfigFile,
    Configs,
    configs_in_log,
    read_configs,
    read_spec,
)

__all__ = [
    "ConfigFile",
    "ConfigFormat",
    "Configs",
    "Draft",
    "Noted",
    "Statement",
    "To",
    "configs_in_log",
    "read_configs",
    "read_spec",
]
