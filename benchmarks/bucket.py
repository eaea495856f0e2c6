"""A bucket that others keep writing: what taking it costs, the first time and every day.

    python -m benchmarks.bucket [--small] [--files 2000] [--new 100] [--days 10]

Files of a few rows as delivery streams write them, in folders by day, on the S3 server of the
tests: one column has one of three types, some files are damaged, some have no ending, and objects
without a byte stand for folders and ended jobs. The commands are those that a person would type,
each in a process of its own:

* ``firnline import`` refuses the folder and names the bad files;
* ``firnline import --new --skip-bad`` takes the others;
* every day new files come, the same command takes them, and a merge and a clean-up follow.

Printed is a line for each command: its seconds, the rows that the table got, its requests by kind.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import load_average
from firnline.store.access import StoreAccess
from firnline.store.base import Store
from firnline.store.client import open_store
from tools.s3server import S3Server

ROWS = 200
"""Rows of a file."""
BAD = 200
"""One of so many files is damaged."""
BARE = 20
"""One of so many files has a name without an ending."""
_TYPES = (pa.int32(), pa.int64(), pa.float64())
_KINDS = ("get", "put", "list", "delete")


@dataclass(frozen=True)
class Spent:
    """What one command took."""

    command: str
    seconds: float
    rows: int
    """Rows that it brought."""
    requests: dict[str, int]
    said: str = ""
    """Of a command that failed, its first line."""

    def __str__(self) -> str:
        """Return the cells of a table."""
        requests = ", ".join(f"{n:,} {kind.upper()}" for kind, n in self.requests.items() if n)
        cells = (f"`{self.command}`", f"{self.seconds:.1f} s", f"{self.rows:,}", requests or "-")
        return f"| {' | '.join(cells)} | {self.said}"


@dataclass
class Bucket:
    """The folder of others, and the table that takes it."""

    server: S3Server
    scratch: Path
    store: Store = field(init=False)
    files: int = 0
    good: int = 0
    """Files that can be taken."""

    def __post_init__(self) -> None:
        """Open the store."""
        access = StoreAccess.from_env(self.server.env())
        self.store = open_store(self.server.url("lake"), access)

    def deliver(self, day: int, count: int) -> None:
        """Write files of one day, and what comes with them."""
        folder = f"lake/in/2026/{day // 28 + 1:02}/{day % 28 + 1:02}"
        for name in (f"{folder}_$folder$", f"{folder}/_SUCCESS"):
            self.store.put_new(name, b"")
        for _ in range(count):
            number, self.files = self.files, self.files + 1
            data, ending = _file(number), "" if number % BARE == 1 else ".parquet"
            if number % BAD == BAD - 1:
                data = data[: len(data) // 2]
            else:
                self.good += 1
            self.store.put_new(f"{folder}/part-{number:06}{ending}", data)

    def run(self, *words: str) -> Spent:
        """Run a command of firnline with the table."""
        command = [sys.executable, "-m", "firnline", *words, "--json"]
        env = {**os.environ, **self.server.env()}
        began = time.perf_counter()
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        shown = " ".join(["firnline", *(w for w in words if w != "--yes")])
        shown = shown.replace(self.server.url("lake"), "s3://lake")
        if done.returncode:
            said = json.loads(done.stderr)["error"]["message"].splitlines()[0]
            return Spent(shown, seconds, 0, {}, said)
        report = json.loads(done.stdout)
        plan = report.get("plan", {})
        rows = plan.get("rows", 0) if isinstance(plan, dict) else 0
        return Spent(shown, seconds, rows, {k: report["requests"].get(k, 0) for k in _KINDS})

    @property
    def table(self) -> str:
        """Root of the table."""
        return self.server.url("lake/t")

    def take(self, *options: str) -> Spent:
        """Import the folder."""
        return self.run("import", self.table, self.server.url("lake/in"), *options)


def _file(number: int) -> bytes:
    kind, first = _TYPES[number % len(_TYPES)], number * ROWS
    rows = {
        "id": range(first, first + ROWS),
        "amount": pa.array([n % 1_000 for n in range(ROWS)], kind),
        "event": [f"event {n % 7}" for n in range(ROWS)],
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(rows), sink)
    return sink.getvalue()


def measure(files: int, new: int, days: int) -> list[Spent]:
    """Return what each command took; fails if a row is missing or twice."""
    found: list[Spent] = []

    def note(spent: Spent) -> None:
        found.append(spent)
        print(spent, flush=True)

    with tempfile.TemporaryDirectory() as folder, S3Server(Path(folder) / "s3") as server:
        bucket = Bucket(server, Path(folder))
        for day in range(28):
            bucket.deliver(day, files // 28 + (day < files % 28))
        note(bucket.take())
        note(bucket.take("--new", "--skip-bad"))
        for day in range(28, 28 + days):
            bucket.deliver(day, new)
            note(bucket.take("--new", "--skip-bad"))
            note(bucket.run("merge", bucket.table))
            note(bucket.run("cleanup", bucket.table))
        note(bucket.take("--new", "--skip-bad"))
        rows = sum(spent.rows for spent in found)
        if rows != bucket.good * ROWS:
            raise SystemExit(f"{rows:,} rows were taken of {bucket.good * ROWS:,}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bucket")
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--new", type=int, default=100)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="few files, to see that it runs")
    given = parser.parse_args(arguments)
    print(f"load {load_average():.1f}", flush=True)
    if given.small:
        measure(files=201, new=5, days=1)
    else:
        measure(given.files, given.new, given.days)
    print(f"load {load_average():.1f}")


if __name__ == "__main__":
    main()
