"""A folder on local disk for one task: staged inputs, spilled sorts, the output.

It goes away with the task, also when the task fails. A task that is killed cannot clean up after
itself, so the next one on the same disk does: every folder has a lock file that its process holds,
and a folder whose lock is free has no owner any more. A lock, unlike a process id, also tells the
truth about processes in other containers that share the disk.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from firnline.clock import Clock
from firnline.errors import ScratchFullError
from firnline.ids import Ids
from firnline.kernel.faults import scratch_full

_PREFIX = "firnline-"
_LOCK = ".lock"


@contextmanager
def scratch_folder(parent: Path, ids: Ids, clock: Clock) -> Iterator[Path]:
    """An empty folder of this task's own under ``parent`` (made when missing).

    Raises:
        ScratchFullError: the folder cannot be made, for want of space or of permission.
    """
    name = f"{_PREFIX}{ids.uuid7(clock.now_ms())}"
    folder, lock_path = parent / name, parent / (name + _LOCK)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent)
        lock = _take(lock_path)
        folder.mkdir()
    except OSError as error:
        raise _unusable(parent, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock_path.unlink(missing_ok=True)
        os.close(lock)


def _take(path: Path) -> int:
    """Make a lock file and hold its lock; returns the descriptor that holds it."""
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Somebody may have found it abandoned between its creation and our lock.
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _remove_abandoned(parent: Path) -> None:
    """Remove what killed tasks left; whatever cannot be removed is somebody else's to clean."""
    for lock_path in parent.glob(f"{_PREFIX}*{_LOCK}"):
        with suppress(OSError):
            descriptor = os.open(lock_path, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock_path.with_name(lock_path.name.removesuffix(_LOCK)), True)
                lock_path.unlink()
            finally:
                os.close(descriptor)


def _unusable(parent: Path, error: OSError) -> ScratchFullError:
    return scratch_full(parent, error) or ScratchFullError(
        f"the scratch folder {parent} cannot be used: {error.strerror}",
        next_step="give --scratch (or spark.local.dir) a folder that this user can write to",
    )
