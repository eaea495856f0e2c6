"""The merge of 10 M rows: all contenders, round after round in turn, against one S3 server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType

import pyarrow.parquet as pq

from benchmarks import contenders, data
from benchmarks.measure import Figures, environment, watched
from benchmarks.sizes import Bench
from firnline.ids import format_uuid7
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.parquet.digests import digest_file
from firnline.paths import Root, TablePaths
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from tools.s3server import S3Server

_NAMES_MS = 1_700_000_000_000
"""Time in the names of the original parts: begins ``contenders.ORIGINAL``."""


def lay_out(
    root: str,
    access: StoreAccess | None,
    files: list[Path],
    groups: int,
    columns: Mapping[str, str] = MappingProxyType(dict(data.COLUMNS)),
) -> None:
    """A firnline table of one append: these files in ``groups`` partitions.

    The parts state the digests of their rows, as those of firnline's own writers do.
    """
    store, paths = open_store(root, access), TablePaths(Root.parse(root).prefix)
    markers = []
    for number, path in enumerate(files):
        partition = f"p={number * groups // len(files)}"
        key = paths.data_part(partition, format_uuid7(_NAMES_MS, number))
        store.put_file(key, path)
        rows, size = pq.read_metadata(path).num_rows, path.stat().st_size
        found = digest_file(path)  # None: a column has a type without one
        digest = str(found[0]) if found is not None else None
        markers.append(Marker(p=key, b=size, t=_NAMES_MS, n=rows, g=digest))
    log = LogContent(t=_NAMES_MS, schema=dict(columns), markers=markers)
    key = paths.append_log(_NAMES_MS, f"bench-{format_uuid7(_NAMES_MS, 1 << 70)}")
    store.put_new(key, codec.encode(log))


class Player:
    """A contender in its process: a module and its arguments, which answers line by line."""

    def __init__(self, name: str, what: str, command: list[str], env: Mapping[str, str]) -> None:
        self.figures = Figures(name, what)
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=environment(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def say(self, word: str) -> dict[str, object]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.figures.name} ended with code {self._process.wait()}")
        said: dict[str, object] = json.loads(line) or {}
        return said

    def round(self, *, counts: bool) -> None:
        self.say("prepare")
        # What the one before has left for the disk is not this one's.
        os.sync()
        with watched(self._process.pid) as usage:
            notes = self.say("run")
        if counts:
            self.figures.rounds.append(usage)
            self.figures.notes = notes

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


@contextmanager
def server(folder: Path) -> Iterator[S3Server]:
    """An empty S3 server."""
    with S3Server(folder / "s3") as running:
        yield running


def compare(kind: str, bench: Bench) -> list[Figures]:
    """One warm-up each, then ``rounds`` in turn, every other one backwards."""
    in_order, sizes, work = kind == "sorted parts", bench.sizes, bench.work
    folder = bench.cache / ("merge-sorted" if in_order else "merge")
    files = data.make(folder, sizes.merge_files, sizes.merge_rows, in_order=in_order)
    known = contenders.KINDS[kind]
    with ExitStack() as stack:
        s3 = stack.enter_context(server(work))
        access = StoreAccess.from_env(s3.env())
        players = []
        for number, (name, (what, _)) in enumerate(known.items()):
            root = s3.url(f"table{number}")
            if name == contenders.LOCAL:
                root = f"file://{work}/{kind}-local/table{number}"
            lay_out(root, access, files, contenders.GROUPS)
            places = {
                "BENCH_ROOT": root,
                "BENCH_DATA": str(folder),
                "BENCH_WORK": str(work / f"{kind}-{number}"),
            }
            command = ["benchmarks.contenders", kind, name]
            player = Player(name, what, command, {**s3.env(), **places})
            stack.callback(player.close)
            players.append(player)
        for done in range(bench.rounds + 1):
            for player in players[:: 1 if done % 2 else -1]:
                player.round(counts=done > 0)
                if done:
                    last = player.figures.rounds[-1]
                    print(
                        f"  {kind:9s} {player.figures.name:20s} {last.seconds:6.2f} s", flush=True
                    )
        return [player.figures for player in players]
