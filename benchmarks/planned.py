"""The plan of a request of erasure over many large tables: a dry run, which writes nothing.

Tables on local disk whose parts are clustered by user, so that their bounds say who may be in them,
and one request, as a whole process that looks at all tables (``firnline erasure run --dry-run``):

- *few*: of few people: bounds exclude nearly all parts.
- *many*: of so many people that every part may hold one, as where no bounds say who is in a part.

A plan reads the log, the request and its keys, and no part: Bloom filters are not looked at.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import cluster, data
from benchmarks.measure import Figures, run_process
from benchmarks.sizes import Bench
from firnline.appends.append import Appender
from firnline.log.parts_view import totals
from firnline.log.txn_file import RunIdentity
from firnline.operations.clone.run import run_clone
from firnline.operations.operation import Work
from firnline.operations.options import CloneOptions
from firnline.settings.load import load_settings
from firnline.state.snapshot import read_snapshot
from firnline.table import Table, open_table

USERS = 1_000_000
"""Numbers of users in the data."""
_APPENDS = 10
"""Of each table, before its merge."""
_CLUSTERED = "{columns: [user_id], run_size: 1TiB}"
"""One run of parts that do not overlap: what many merges come to in the end."""


def compare(bench: Bench, rounds: int) -> list[Figures]:
    """Both requests in turn, over the same tables."""
    tables, rows, parts, *people = bench.sizes.planned
    place = bench.work / "planned"
    place.mkdir()
    found = {
        f"{count}": Figures(f"{count:,} people", "one request, dry run over all tables")
        for count in people
    }
    rows_in_all, parts_in_all = lay_out(place, tables, rows, rows // parts, people)
    for _ in range(rounds):
        for name, figures in found.items():
            command = [sys.executable, "-m", "benchmarks.planned", "--place", str(place / name)]
            figures.rounds.append(run_process(command))
            told = json.loads((place / name / "report.json").read_text())
            figures.notes = {"rows": rows_in_all, "parts": parts_in_all, **told}
            print(f"  {figures.name:16s} {figures.rounds[-1].seconds:6.2f} s {told}")
    return list(found.values())


def lay_out(
    place: Path, tables: int, rows: int, part_rows: int, people: list[int]
) -> tuple[int, int]:
    """Tables, and for each number of people a folder with settings and one request of them.

    Returns rows and parts of all tables.
    """
    folders = [place / str(count) for count in people]
    for folder, count in zip(folders, people, strict=True):
        folder.mkdir()
        (folder / "tables.yaml").write_text(_settings(place, folder, tables, part_rows))
        (folder / "keys.csv").write_text(_keys(count))
    settings = load_settings(folders[0] / "tables.yaml")
    opened = [open_table(each) for each in settings.tables.values()]
    _fill(opened[0], rows, place / "scratch")
    for other in opened[1:]:
        work = Work(opened[0], RunIdentity(run_id="bench"))
        run_clone(work, CloneOptions(), target=other)
    _have_own_objects(place)
    for folder in folders:
        _ask(folder)
    found = [totals(read_snapshot(each.store, each.paths).live) for each in opened]
    return sum(each.rows or 0 for each in found), sum(each.parts for each in found)


def _settings(place: Path, folder: Path, tables: int, part_rows: int) -> str:
    """All tables, and a folder of requests of its own."""
    text = f"erasure: {{requests: 'file://{folder}/requests'}}\ntables:\n"
    for number in range(tables):
        text += (
            f"  t{number:02}: {{root: 'file://{place}/t{number:02}', person: [user_id], "
            f"cluster_by: {_CLUSTERED}, merge: {{target_rows: {part_rows}}}}}\n"
        )
    return text


def _fill(table: Table, rows: int, scratch: Path) -> None:
    """Appends of users that are everywhere, merged into parts of one range of users each."""
    appender = Appender(table)
    for number in range(_APPENDS):
        appender.append(_rows(number, rows // _APPENDS))
    cluster.merge(table, scratch)


def _have_own_objects(place: Path) -> None:
    """On local disk parts of a clone are names of the same files: let each table have its own."""
    for part in sorted(place.glob("t*/_data/**/*.parquet")):
        if part.stat().st_nlink > 1:
            own = part.with_suffix(".own")
            shutil.copyfile(part, own)
            own.replace(part)


def _rows(number: int, rows: int) -> pa.Table:
    """Those of the data set, without the texts that differ in every row: they are most of it."""
    return data.make_table(number, rows).drop_columns(["props"])


def _keys(count: int) -> str:
    """Users far from each other; the same each time."""
    step = USERS // count
    return "user_id\n" + "".join(f"{number * step + step // 2}\n" for number in range(count))


def _ask(folder: Path) -> None:
    import firnline

    firnline.erasures(folder / "tables.yaml").ask(folder / "keys.csv")


@dataclass
class _Opened:
    """Opens tables, and keeps them for what they have sent."""

    opens: Any
    tables: list[Table] = field(default_factory=list)

    def __call__(self, name: str) -> Table:
        self.tables.append(self.opens(name))
        return self.tables[-1]


def plan(folder: Path) -> dict[str, Any]:
    """Look at all tables; what a dry run does, and the requests that it has sent."""
    import firnline

    found = firnline.erasures(folder / "tables.yaml")
    opened = _Opened(found.people.opens)
    planned = replace(found, people=replace(found.people, opens=opened)).look()
    unread = [look.unread for look in planned.tables if look.unread]
    if unread or len(planned.batches) != len(opened.tables):
        raise SystemExit(f"not every table has something to erase: {unread}")
    stores = [found.people.folder.store, *(table.store for table in opened.tables)]
    sent = {
        kind: sum(getattr(store.counters, kind) for store in stores)
        for kind in ("list", "get", "head", "put", "delete")
    }
    return {
        "requests_by_kind": ", ".join(f"{n:,} {kind.upper()}" for kind, n in sent.items() if n),
        "parts_to_rewrite": sum(look.parts for look in planned.tables),
        "bytes_to_read": sum(look.bytes for look in planned.tables),
    }


def main() -> None:
    """Plan once, as the process that is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planned")
    parser.add_argument("--place", type=Path, required=True)
    folder: Path = parser.parse_args().place
    (folder / "report.json").write_text(json.dumps(plan(folder)))


if __name__ == "__main__":
    main()
