"""A folder on local disk for one task, with its inputs in it: at least one GET per object.

The folder is deleted with the task, also when the task fails. A task that is killed cannot clean
up, so the next one on the same disk does: every folder has a lock file that its process holds, and
a folder whose lock is free has no owner any more. A lock, unlike a process id, also works across
containers that share the disk.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path

from firnline.clock import Clock, SystemClock
from firnline.errors import FirnlineError, ObjectNotFoundError, PartGoneError, ScratchFullError
from firnline.ids import Ids, SystemIds
from firnline.kernel.faults import disk_full, scratch_full
from firnline.kernel.task import KernelInput, KernelTask
from firnline.store.base import Store
from firnline.store.client import ObjectClient
from firnline.store.transfer import each

CONCURRENCY = 8
"""Concurrent GETs: enough to fill a link of 10 Gbit/s, few enough to keep buffers small."""
_PREFIX = "firnline-"
_LOCK = ".lock"


class InputError(Exception):
    """A FirnlineError and the input that caused it; never leaves the kernel."""

    def __init__(self, key: str, error: FirnlineError) -> None:
        super().__init__(key, error)
        self.key = key
        self.error = error


def stage(
    inputs: tuple[KernelInput, ...],
    store: Store,
    folder: Path,
    stopped: Callable[[], bool],
) -> list[Path]:
    """Fetch every input with exactly one GET; return their local files, in order.

    Of some row groups of an input: one GET for the footer, and one for each stretch of neighbours.

    Raises:
        InputError: an object is missing, or the store failed on it; the others are not awaited.
        ScratchFullError: no space under ``folder``.
    """
    paths = _paths(folder, len(inputs))
    with ThreadPoolExecutor(min(CONCURRENCY, len(inputs)), "firnline-stage") as pool:
        under_way = [
            pool.submit(_fetch, source, store, path, stopped)
            for source, path in zip(inputs, paths, strict=True)
        ]
        wait(under_way, return_when=FIRST_EXCEPTION)
        pool.shutdown(wait=True, cancel_futures=True)
    for future in under_way:
        if not future.cancelled():
            future.result()
    return paths


def stage_small(inputs: Sequence[KernelInput], store: Store) -> tuple[bytes, ...]:
    """Fetch every input with exactly one GET into memory; return them in order.

    Raises InputError: an object is missing, or the store failed on it.
    """

    def fetch(key: str) -> bytes:
        with _named(key):
            return store.get(key)

    keys = [source.key for source in inputs]
    if isinstance(store, ObjectClient) and store.in_folder:
        return tuple(map(fetch, keys))  # a thread costs several times a small file
    return tuple(each(keys, fetch, CONCURRENCY))


def put_down(held: Sequence[bytes], folder: Path) -> list[Path]:
    """Write inputs that ``stage_small`` has fetched to local files; return these, in order.

    Raises ScratchFullError: no space under ``folder``.
    """
    paths = _paths(folder, len(held))
    try:
        for path, data in zip(paths, held, strict=True):
            path.write_bytes(data)
    except OSError as error:
        raise scratch_full(folder.parent, error) or error from error
    return paths


def _paths(folder: Path, count: int) -> list[Path]:
    return [folder / f"{number:06d}.parquet" for number in range(count)]


def stage_keys(task: KernelTask, store: Store, folder: Path) -> Path | None:
    """Fetch the key file with exactly one GET; None for a task without one.

    Raises:
        InputError: the object is missing, or the store failed on it.
        ScratchFullError: no space under ``folder``.
    """
    if task.keys is None:
        return None
    path, key = folder / "keys.parquet", task.keys.key
    try:
        store.get_file(key, path)
    except ObjectNotFoundError as error:
        gone = ObjectNotFoundError(
            f"the key file {key} has no object", next_step="run the operation again"
        )
        raise InputError(key, gone) from error
    except ScratchFullError as error:
        raise disk_full(path.parent.parent) from error
    except FirnlineError as error:
        raise InputError(key, error) from error
    return path


def _fetch(source: KernelInput, store: Store, path: Path, stopped: Callable[[], bool]) -> None:
    if stopped():
        return
    try:
        with _named(source.key):
            if source.row_groups is None:
                store.get_file(source.key, path)
                return
            # It needs pyarrow, whose threads the process of a query must not have.
            from firnline.parquet.excerpt import Excerpt, fetch_excerpt

            fetch_excerpt(store, source.key, Excerpt(source.bytes, source.row_groups), path)
    except ScratchFullError as error:
        raise disk_full(path.parent.parent) from error


@contextmanager
def _named(key: str) -> Iterator[None]:
    """Attribute errors of the store to the part that was read. Raises InputError."""
    try:
        yield
    except ObjectNotFoundError as error:
        gone = PartGoneError(
            f"part {key} has no object",
            next_step="run again: a clean-up may have run; if it persists, "
            "`firnline verify` lists what is missing",
        )
        raise InputError(key, gone) from error
    except ScratchFullError:
        raise  # not of the part
    except FirnlineError as error:
        raise InputError(key, error) from error


def default_parent() -> Path:
    """Return the folder for scratch folders where nobody names one: below the system's."""
    return Path(tempfile.gettempdir()) / "firnline"


@contextmanager
def own_folder() -> Iterator[Path]:
    """Yield an empty folder of this process below ``default_parent``; it is deleted at the end.

    What killed processes have left there is deleted first. Raises as ``scratch_folder``.
    """
    folder = new_folder(default_parent(), SystemIds(), SystemClock())
    remove_abandoned(folder.parent)
    with scratch_folder(folder):
        yield folder


def new_folder(parent: Path, ids: Ids, clock: Clock) -> Path:
    """Return the path of a folder under ``parent`` that nobody else has; it is not made yet."""
    return parent / f"{_PREFIX}{ids.uuid7(clock.now_ms())}"


@contextmanager
def scratch_folder(folder: Path) -> Iterator[None]:
    """Make an empty folder and its parents, and hold its lock; delete it at the end.

    Args:
        folder: see ``new_folder``.

    Raises:
        ScratchFullError: the folder cannot be created, for lack of space or permission.
    """
    parent, lock_path = folder.parent, folder.with_name(folder.name + _LOCK)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        lock = _take(lock_path)
        folder.mkdir(mode=0o700)  # the rows and keys of a table, on a disk of many users
    except OSError as error:
        raise scratch_full(parent, error) or ScratchFullError(
            f"the scratch folder {parent} cannot be used: {error.strerror}",
            next_step="give a folder that this user can write to (`--scratch` of the command, "
            "`spark.local.dir` or SPARK_LOCAL_DIRS for Spark, else TMPDIR)",
        ) from error
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock_path.unlink(missing_ok=True)
        os.close(lock)


def _take(path: Path) -> int:
    """Create a lock file and hold its lock; return the descriptor that holds it."""
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another task may have found it abandoned between its creation and this lock.
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def remove_abandoned(parent: Path) -> None:
    """Remove folders of killed workers; skip those that cannot be removed."""
    for lock_path in parent.glob(f"{_PREFIX}*{_LOCK}"):
        with suppress(OSError):
            descriptor = os.open(lock_path, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Else it went with a group that has ended, and its worker may have the next one in
                # a folder of the same name, whose lock is another file.
                if os.fstat(descriptor).st_nlink:
                    shutil.rmtree(lock_path.with_name(lock_path.name.removesuffix(_LOCK)), True)
                    lock_path.unlink()
            finally:
                os.close(descriptor)
