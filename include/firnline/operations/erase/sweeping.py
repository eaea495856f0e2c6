"""The command that deletes what keeps a certificate waiting and no log file names."""

from __future__ import annotations

from firnline.operations.erase.evidence import Search
from firnline.shown import when


def sweep_step(search: Search, youngest_ms: int) -> str:
    """Return the next step for objects or uploads that a sweep deletes: the command, and its time.

    Args:
        search: of the certificate.
        youngest_ms: time, unix ms, at which the youngest of them was written.
    """
    command = f"run `firnline sweep {search.table.settings.name} --delete`"
    over = youngest_ms + search.waits.orphan_age
    from_ms = (over // 1000 + 1) * 1000  # times are shown in whole seconds
    if from_ms <= search.inventory.now_ms:
        return f"{command}, and this again"
    return f"{command} from {when(from_ms)} on, when it takes the youngest, and this again"
