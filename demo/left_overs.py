"""Processes of a demo that was itself ended without a chance to end them."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from tools.processes import MARK


def left_overs(folder: Path) -> list[psutil.Process]:
    """Living processes that work on the folder of a demo, this one apart."""
    return [
        process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and _works_on(process, folder) and _runs(process)
    ]


def still_left(folder: Path, seconds: float = 10) -> list[psutil.Process]:
    """Left-over processes, and children of this one, that do not end within a time."""
    left = {*left_overs(folder), *psutil.Process().children(recursive=True)}
    _, living = psutil.wait_procs(left, timeout=seconds)
    return list(living)


def end_left_overs(folder: Path) -> None:
    """End left-over processes; requires exclusive use of the folder (``place.prepared``)."""
    left = left_overs(folder)
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, timeout=5)


def _works_on(process: psutil.Process, folder: Path) -> bool:
    try:
        # Airflow and all that it started, wherever they hang by now; the S3 server.
        marked = process.environ().get(MARK, "").startswith(f"{folder}{os.sep}")
        return marked or str(folder / "s3") in process.cmdline()
    except psutil.Error:
        return False  # gone meanwhile, or somebody else's


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
