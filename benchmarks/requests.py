"""Requests of erasure over many tables: all of them together, and each by itself.

Tables of ten parts each on local disk, and requests of people who are in all of them, as whole
processes, two threads each:

- *together*: one run of ``firnline erasure``: each table is erased once, with the keys of all.
- *apart*: an erase of each table for each request.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.measure import Figures, run_process
from benchmarks.merge import lay_out
from benchmarks.sizes import Bench

PARTS = 10
_GROUPS = 2
_USERS = 1_000_000
"""Numbers of users in the data."""


def lay_out_all(place: Path, files: list[Path], tables: int, requests: int, people: int) -> None:
    """Settings, tables and files of keys; the same each time."""
    text = f"erasure: {{requests: 'file://{place}/requests'}}\ntables:\n"
    for number in range(tables):
        root = f"file://{place}/t{number:02}"
        lay_out(root, None, files, _GROUPS)
        text += f"  t{number:02}: {{root: '{root}', person: [user_id]}}\n"
    (place / "tables.yaml").write_text(text)
    for number in range(requests):
        users = ((number * people + each) * 1_000_003 % _USERS for each in range(people))
        lines = "".join(f"{user}\n" for user in users)
        (place / f"keys-{number}.csv").write_text(f"user_id\n{lines}")


def together(place: Path) -> dict[str, Any]:
    """Take all requests, and erase them in one run."""
    import firnline

    erasures = firnline.erasures(place / "tables.yaml")
    for keys in sorted(place.glob("keys-*.csv")):
        erasures.ask(keys)
    report = erasures.run()
    return {"rows_erased": sum(each.rows for each in report.tables)}


def apart(place: Path) -> dict[str, Any]:
    """Erase each request from each table."""
    import firnline
    from firnline.settings.load import load_settings

    rows = 0
    for table in load_settings(place / "tables.yaml").tables.values():
        for keys in sorted(place.glob("keys-*.csv")):
            options = firnline.EraseOptions(columns=("user_id",), keys_file=str(keys))
            rows += firnline.erase(table.root, options).counts.rows_deleted
    return {"rows_erased": rows}


CONTENDERS = {"together": together, "apart": apart}


def compare(bench: Bench, rounds: int) -> list[Figures]:
    """Both in turn, each on fresh tables; they leave the same number of rows."""
    tables, requests, people, rows = bench.sizes.requests
    files = data.make(bench.cache / "requests", PARTS, rows)
    found = {
        "together": Figures("one run", f"{requests} requests, each table erased once"),
        "apart": Figures("erases", f"{requests} x {tables} erases, one after the other"),
    }
    for _ in range(rounds):
        erased = set()
        for name, figures in found.items():
            place = bench.work / name
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            lay_out_all(place, files, tables, requests, people)
            before = _bytes(place)
            command = [sys.executable, "-m", "benchmarks.requests", "--one", name]
            figures.rounds.append(run_process([*command, "--place", str(place)]))
            notes = json.loads((place / "report.json").read_text())
            erased.add(notes["rows_erased"])
            figures.notes = {**notes, "bytes_out": _bytes(place) - before}
            print(f"  {figures.name:8s} {figures.rounds[-1].seconds:6.2f} s")
        if len(erased) != 1 or not erased.pop():
            raise SystemExit("the contenders erased different rows, or none")
    return list(found.values())


def _bytes(place: Path) -> int:
    """Bytes of all parts: nothing is cleaned up, so what comes was written."""
    return sum(path.stat().st_size for path in place.glob("t*/_data/**/*.parquet"))


def main() -> None:
    """Run one contender, as the process that is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.requests")
    parser.add_argument("--one", choices=list(CONTENDERS), required=True)
    parser.add_argument("--place", type=Path, required=True)
    given = parser.parse_args()
    report = CONTENDERS[given.one](given.place)
    (given.place / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
