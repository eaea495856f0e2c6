"""Several writer processes at once, watched and ended."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from demo.place import Place
from firnline.errors import FirnlineError

WRITERS = 4
"""More than cores: a writer waits for its store most of the time."""


class AppendsFailedError(FirnlineError):
    """A writer of the demo ended early."""


def append_all(
    place: Place, flights: pa.Table, on_progress: Callable[[int], None], writers: int = WRITERS
) -> None:
    """Append all hours of ``flights``; returns when every log file is written.

    Args:
        place: where the table is.
        flights: as ``read_flights``.
        on_progress: called with how many appends are done so far.
        writers: processes.

    Raises:
        AppendsFailedError: says what a writer said.
    """
    place.logs.mkdir(parents=True, exist_ok=True)
    path = place.folder / "flights.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, flights.schema) as sink:
        sink.write_table(flights.combine_chunks())
    processes = [_start(place, path, number, writers) for number in range(writers)]
    try:
        _watch(processes, on_progress)
        for number, process in enumerate(processes):
            if process.wait() != 0:
                log = _log(place, number)
                raise AppendsFailedError(
                    f"a writer failed: {_last_line(log)}", next_step=f"read {log}"
                )
    finally:
        for process in processes:
            process.kill()  # nothing happens to one that has ended
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        path.unlink(missing_ok=True)


def _start(place: Place, path: Path, number: int, writers: int) -> subprocess.Popen[bytes]:
    module = f"{__package__}.writer"
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with _log(place, number).open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", module, str(path), str(number), str(writers)],
            env={**own, **place.env()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            # Ctrl-C is for the demo, which ends its writers.
            start_new_session=True,
        )


def _watch(processes: list[subprocess.Popen[bytes]], on_progress: Callable[[int], None]) -> None:
    """Count lines until every writer has closed its output, or one has failed."""
    done = 0
    with selectors.DefaultSelector() as selector:
        for process in processes:
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ, process)
        while selector.get_map():
            for key, _ in selector.select(timeout=0.5):
                lines = os.read(key.fd, 65_536)
                done += len(lines)
                if not lines:
                    selector.unregister(key.fileobj)
                    if key.data.wait() != 0:
                        return
            on_progress(done)


def _log(place: Place, number: int) -> Path:
    return place.logs / f"writer-{number}.log"


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it was ended from outside"
