"""Crash sweeps with their figures.

python -m tests.crash [memory] [file] [s3]    exhaustive; memory when none is named
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from firnline.store.access import StoreAccess
from tests.support.operations import SCENARIOS
from tests.support.places import FolderPlace, MemoryPlace, Place
from tests.support.scenarios import Scenario
from tests.support.sweeping import each_interrupt, every_interrupt, every_point, lay_out, sweep
from tools.s3server import S3Server


@contextmanager
def _place(kind: str, folder: Path, servers: list[S3Server]) -> Iterator[Place]:
    name = folder.name
    if kind == "memory":
        yield MemoryPlace()
    elif kind == "file":
        yield FolderPlace("file", f"file://{folder}/store", folder / "store", folder / "copies")
    else:
        (server,) = servers
        access = StoreAccess.from_env(server.env())
        data = server.data_dir / server.bucket / name
        yield FolderPlace("s3", server.url(name), data, folder / "copies", access)


def _one(kind: str, scenario: Scenario, folder: Path, servers: list[S3Server]) -> tuple[int, ...]:
    (folder / "scratch").mkdir(parents=True)
    began = time.monotonic()
    with _place(kind, folder, servers) as place:
        start = lay_out(place, scenario, folder / "scratch")
        interrupts = every_interrupt if kind == "memory" else each_interrupt
        figures = sweep(start, [*every_point(start.calls), *interrupts(start.calls)])
    seconds = time.monotonic() - began
    interrupted = figures.kinds["interrupted"]
    print(f"{kind:6}  {scenario.name:22} {figures.calls:5} {figures.points:6} {interrupted:10} "
          f"{figures.rerun:6} {seconds:7.1f}", flush=True)  # fmt: skip
    return figures.calls, figures.points, interrupted


def main(kinds: list[str]) -> int:
    """Sweep; 2 for a kind that there is not."""
    if not set(kinds) <= {"memory", "file", "s3"}:
        sys.stderr.write(__doc__ or "")
        return 2
    logging.disable()  # of the warnings that there should be
    print("store   operation              calls points interrupts  rerun seconds")
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firnline-crash-")))
        servers = [stack.enter_context(S3Server(top / "s3" / "data"))] if "s3" in kinds else []
        for kind in kinds or ["memory"]:
            done = [
                _one(kind, scenario, top / f"{kind}-{number}", servers)
                for number, scenario in enumerate(SCENARIOS)
            ]
            calls, points, interrupts = (sum(column) for column in zip(*done, strict=True))
            print(f"{kind:6}  {'together':22} {calls:5} {points:6} {interrupts:10}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
