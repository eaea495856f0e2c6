"""A client of log format version 1, written from its rules alone: it knows nothing of ours.

Lines are JSON, log files go by the order of their names, the later line wins. It writes ``v`` as a
string, no ``x``, no ``n``, no statistics, and drops every key it does not know when it folds.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.world import World

SCHEMA = {"ts": "TIMESTAMP", "v": "INTEGER"}


@dataclass(frozen=True)
class Begun:
    """What a merge has read."""

    picked: list[str]
    logs: list[str]
    markers: dict[str, dict[str, Any]]


@dataclass
class V1Client:
    """Works on the objects of a world's store directly."""

    world: World
    host: str = "v1-host"
    keeps_slashes: bool = False
    """True if the store keeps a key with an empty segment as it is, as S3 does. A folder, and a
    server that has its objects in one, leave it out: that is what other tests go by."""

    @property
    def _objects(self) -> dict[str, tuple[bytes, int]]:
        return self.world.store.objects

    @property
    def _prefix(self) -> str:
        return self.world.table.paths.prefix

    def place(self, part: str) -> str:
        """Key of the object of a part that a marker names."""
        return part if self.keeps_slashes else re.sub("/+", "/", part)

    def log_files(self) -> list[str]:
        return sorted(k for k in self._objects if k.startswith(f"{self._prefix}/_log"))

    def _read(self, key: str) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
        lines = self._objects[key][0].split(b"\n")
        header = json.loads(lines[0])
        stones = lines[header["tmb"] : header["f"]] if header.get("tmb") else []
        return (
            json.loads(lines[header["sch"]]),
            [json.loads(line) for line in stones],
            [json.loads(line) for line in lines[header["f"] :]],
        )

    def markers(self) -> dict[str, dict[str, Any]]:
        """The last marker of every part, in order of log files."""
        found: dict[str, dict[str, Any]] = {}
        for key in self.log_files():
            for marker in self._read(key)[2]:
                found[marker["p"]] = marker
        return found

    def live(self) -> set[str]:
        return {p for p, marker in self.markers().items() if "tmb" not in marker}

    def append(self, partition: str, size: int = 100) -> str:
        self.world.clock.advance(1)
        t = self.world.clock.now
        part = f"{self._prefix}/_data/{partition}/{self.world.ids.uuid7(t)}.parquet"
        self._objects[self.place(part)] = (b"rows", t)
        self._write(f"{t}_{self.host}.jsonl", SCHEMA, [], [{"p": part, "b": size, "t": t}])
        return part

    def append_rows(self, partition: str, rows: pa.Table, schema: dict[str, str]) -> str:
        """An append of real rows; the schema line is what the client says of them."""
        self.world.clock.advance(1)
        t = self.world.clock.now
        part = self._part(partition, rows)
        marker = {"p": part, "b": len(self._objects[self.place(part)][0]), "t": t}
        self._write(f"{t}_{self.host}.jsonl", schema, [], [marker])
        return part

    def _part(self, partition: str, rows: pa.Table) -> str:
        t, buffer = self.world.clock.now, io.BytesIO()
        pq.write_table(rows.replace_schema_metadata(), buffer)  # nothing of ours in its footer
        part = f"{self._prefix}/_data/{partition}/{self.world.ids.uuid7(t)}.parquet"
        self._objects[self.place(part)] = (buffer.getvalue(), t)
        return part

    def merge_rows(self, partition: str) -> str:
        """Merge real parts as DuckDB reads them: the keys of the path become columns."""
        return self.finish(partition, self.begin(partition))

    def begin(
        self, partition: str, most: int | None = None, *, sources_only: bool = False
    ) -> Begun:
        """Read the log, and choose the first parts of a partition; all of them without ``most``.

        Args:
            partition: whose parts are merged.
            most: number of parts.
            sources_only: fold no other log files than the last one that names each of the parts.
        """
        picked = self._picked(partition)[:most]
        if not sources_only:
            return Begun(picked, self.log_files(), self.markers())
        last = {m["p"]: key for key in self.log_files() for m in self._read(key)[2]}
        logs = sorted({last[part] for part in picked})
        return Begun(picked, logs, {m["p"]: m for key in logs for m in self._read(key)[2]})

    def finish(self, partition: str, begun: Begun) -> str:
        """Merge what was chosen, whatever has happened to the table since: nothing stops it."""
        picked = begun.picked
        read = [pq.read_table(io.BytesIO(self._objects[self.place(p)][0])) for p in picked]
        # ``read_parquet`` without ``union_by_name``: of the columns of the first file, and by name.
        columns = read[0].column_names
        rows = pa.concat_tables(
            [table.select([c for c in columns if c in table.column_names]) for table in read],
            promote_options="permissive",
        )
        for segment in partition.split("/"):
            name, mark, value = segment.partition("=")
            if mark and name not in rows.column_names:
                rows = rows.append_column(name, pa.array([value] * len(rows), pa.string()))
        self.world.clock.advance(5)
        new = self._part(partition, rows)
        self._fold_into(begun, new, len(self._objects[self.place(new)][0]))
        return new

    def _picked(self, partition: str) -> list[str]:
        """The live parts of a partition, which is what stands between ``_data/`` and the name."""
        start = f"{self._prefix}/_data/"
        return sorted(
            p for p in self.live() if "/".join(p.removeprefix(start).split("/")[:-1]) == partition
        )

    def schema(self) -> dict[str, str]:
        """The union of the schema lines of all log files, folded ones too; ValueError for two types
        of one column, and then the client does nothing."""
        found: dict[str, str] = {}
        for key in self.log_files():
            for column, kind in self._read(key)[0].items():
                if found.setdefault(column, kind) != kind:
                    raise ValueError(f"{column}: {found[column]} and {kind}")
        return found

    def merge(self, partition: str) -> str | None:
        """Replace the live parts of a partition by one, folding every log file."""
        begun = self.begin(partition)
        if len(begun.picked) < 2:
            return None
        self.world.clock.advance(5)
        t = self.world.clock.now
        new = f"{self._prefix}/_data/{partition}/{self.world.ids.uuid7(t)}.parquet"
        self._objects[self.place(new)] = (b"rows", t)
        self._fold_into(begun, new, sum(begun.markers[p]["b"] for p in begun.picked))
        return new

    def _fold_into(self, begun: Begun, new: str, size: int) -> None:
        picked, logs, markers = begun.picked, begun.logs, begun.markers
        t = self.world.clock.now
        schema: dict[str, str] = {}
        stones = dict.fromkeys(logs, t)
        for log in logs:
            schema |= self._read(log)[0]
            stones |= {s["p"]: s["t"] for s in self._read(log)[1]}
        lines = [{"p": new, "b": size, "t": t}]
        for path, marker in markers.items():
            known: dict[str, Any] = {k: marker[k] for k in ("p", "b", "t", "tmb") if k in marker}
            lines.append(known | {"tmb": t} if path in picked else known)
        self._write(
            f"{t}_m_{self.host}.jsonl", schema, [{"p": p, "t": s} for p, s in stones.items()], lines
        )

    def _write(
        self,
        name: str,
        schema: dict[str, str],
        stones: list[dict[str, Any]],
        markers: list[dict[str, Any]],
    ) -> None:
        header: dict[str, Any] = {"v": "1", "t": int(name.split("_", maxsplit=1)[0]), "sch": 1}
        if stones:
            header["tmb"] = 2
        header["f"] = 2 + len(stones)
        lines = [json.dumps(x) for x in (header, schema, *stones, *markers)]
        key = f"{self._prefix}/_log/{name}"
        assert key not in self._objects
        self._objects[key] = ("\n".join(lines).encode(), self.world.clock.now)

    def clean_up(self, age_ms: int = 0, *, rewrite: bool = False) -> None:
        """Delete what is tombstoned: log files that a merge has folded, and dead parts; ours too.

        Args:
            age_ms: how long ago it was tombstoned, at least.
            rewrite: drop the tombstones and dead markers, too, in place.
        """
        before = self.world.clock.now - age_ms
        found = [s for log in self.log_files() for s in self._read(log)[1]]
        stones = {s["p"] for s in found if s["t"] <= before}
        dead = {p for p, m in self.markers().items() if m.get("tmb", before + 1) <= before}
        for key in stones | dead:
            self._objects.pop(self.place(key), None)
        for log in self.log_files() if rewrite else ():
            schema, kept_stones, markers = self._read(log)
            name = log.rpartition("/")[2]
            kept = [m for m in markers if m["p"] not in dead]
            del self._objects[log]
            self._write(name, schema, [s for s in kept_stones if s["p"] not in stones], kept)
