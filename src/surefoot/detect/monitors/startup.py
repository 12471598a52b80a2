"""What a start-up log says of state that was not loaded: lines that people read too late.

A restart that loses its schedule or its loader often says so, in one line among thousands. The
lines found here belong beside a finding of family CKP: hand them to
:meth:`surefoot.detect.monitors.Monitors.tell` as events of kind ``warning``.
"""

import re
from collections.abc import Iterable, Iterator

from surefoot.records import Event

MOST = 20
LONGEST = 300
_STATE = re.compile(
    r"(optimi[sz]er|schedulers?\b|custom|rng|random|sampler|data ?loader|dataset|checkpoint|state|"
    r"moments?|weights|parameters|keys?|scaler|master)",
    re.IGNORECASE,
)
_LOST = re.compile(
    r"((not|never|n't) (be |been )?(loaded|restored|found|resumed|used)|"
    r"(could|can|did|will|do) ?n[o']t (be )?(load|restore|resume|find)\w*|"
    r"cannot (load|restore|find)|"
    r"(failed|unable) to (load|restore|resume)|missing keys?|unexpected keys?|"
    r"(skipping|skipped|ignoring|ignored|without) (loading |restoring )?|"
    r"(newly|re-?|randomly )initiali[sz]ed|start(ing|s)? from scratch|weights only)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"(loss|step|iteration|lr|eval)[\"' ]*[:=]|\b0 (missing|unexpected) keys?\b",
                       re.IGNORECASE)  # fmt: skip


def unloaded(lines: Iterable[str], *, step: int | None = None) -> Iterator[Event]:
    """Events of kind ``warning`` for lines that say that state was not loaded, at most 20.

    Args:
        lines: of a start-up log, any number of them.
        step: at which the run was resumed, if known.
    """
    found = 0
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if len(text) > LONGEST or not _LOST.search(text) or not _STATE.search(text):
            continue
        if _HARMLESS.search(text):
            continue
        yield Event(kind="warning", step=step, data={"message": text, "line": number})
        found += 1
        if found == MOST:
            return
