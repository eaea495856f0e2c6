"""Inputs to local disk: one GET per object is the least a store allows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from firnline.errors import FirnlineError, ObjectNotFoundError, PartGoneError, ScratchFullError
from firnline.kernel.faults import disk_full
from firnline.kernel.task import KernelInput, KernelTask
from firnline.store.base import Store

CONCURRENCY = 8
"""GETs under way: enough to fill a link of 10 Gbit/s, few enough to keep buffers small."""


class InputError(Exception):
    """A FirnlineError and the input it is about; never leaves the kernel."""

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
    """Fetch every input with exactly one GET; returns their local files, in order.

    Raises:
        InputError: an object is gone, or the store failed on it; the others are not waited for.
        ScratchFullError: no space under ``folder``.
    """
    paths = [folder / f"{number:06d}.parquet" for number in range(len(inputs))]
    with ThreadPoolExecutor(min(CONCURRENCY, len(inputs)), "firnline-stage") as pool:
        under_way = [
            pool.submit(_fetch, source, store, path, stopped)
            for source, path in zip(inputs, paths, strict=True)
        ]
        wait(under_way, return_when=FIRST_EXCEPTION)
        pool.shutdown(wait=True, cancel_futures=True)
    _raise_first(under_way)
    return paths


def stage_keys(task: KernelTask, store: Store, folder: Path) -> Path | None:
    """Fetch the key file with exactly one GET; None for a task without one.

    Raises:
        InputError: the object is gone, or the store failed on it.
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


def _raise_first(under_way: list[Future[None]]) -> None:
    for future in under_way:
        if not future.cancelled():
            future.result()


def _fetch(source: KernelInput, store: Store, path: Path, stopped: Callable[[], bool]) -> None:
    if stopped():
        return
    try:
        store.get_file(source.key, path)
    except ObjectNotFoundError as error:
        gone = PartGoneError(
            f"part {source.key} has no object",
            next_step="run again: a clean-up may have passed; if it stays, firnline verify "
            "lists what is missing",
        )
        raise InputError(source.key, gone) from error
    except ScratchFullError as error:
        raise disk_full(path.parent.parent) from error
    except FirnlineError as error:
        raise InputError(source.key, error) from error
