"""Faults on the wire, with their figures: python -m tests.store

Every operation, behind a proxy before a real S3 server: each request of a clean run broken in each
way that passes, and everything from it on in each way that lasts.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from firnline.store.access import StoreAccess
from tests.store.faultproxy import FaultProxy
from tests.store.wire import LASTING, PASSING, SILENT, Line, make_impatient
from tests.support.operations import READS, SCENARIOS
from tests.support.places import FolderPlace
from tests.support.scenarios import Scenario
from tests.support.sweeping import lay_out
from tools.s3server import S3Server


def _one(scenario: Scenario, server: S3Server, folder: Path, injected: Counter[str]) -> None:
    (folder / "scratch").mkdir(parents=True)
    began, data = time.monotonic(), server.data_dir / server.bucket / folder.name
    access = StoreAccess.from_env(server.env())
    place = FolderPlace("s3", server.url(folder.name), data, folder / "copies", access)
    runs = failed = 0
    with FaultProxy(server.port) as proxy:
        line = Line(lay_out(place, scenario, folder / "scratch"), proxy)
        for index in range(line.requests):
            for kind in (*PASSING, SILENT):
                injected[kind.name] += line.one_request(kind, index)
                runs += 1
            for kind in LASTING:
                before = proxy.broken.total()
                failed += line.from_request_on(kind, index)
                injected[f"{kind.name}, lasting"] += proxy.broken.total() - before
                runs += 1
    seconds = time.monotonic() - began
    print(f"{scenario.name:22} {line.requests:8} {runs:6} {failed:7} {seconds:8.1f}", flush=True)


def main() -> None:
    """Break everything."""
    logging.disable()  # of the warnings that there should be
    injected: Counter[str] = Counter()
    print("operation              requests   runs  failed  seconds")
    with (
        tempfile.TemporaryDirectory(prefix="firnline-wire-") as top,
        pytest.MonkeyPatch.context() as patch,
    ):
        make_impatient(patch)
        with S3Server(Path(top) / "s3" / "data") as server:
            for number, scenario in enumerate([*SCENARIOS, *READS]):
                _one(scenario, server, Path(top) / f"lake-{number}", injected)
    for kind, count in injected.items():
        print(f"{kind:30} {count:7} faults")
    print(f"{'together':30} {injected.total():7}")


if __name__ == "__main__":
    main()
