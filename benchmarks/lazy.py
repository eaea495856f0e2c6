"""One user's rows go out of a table of a million parts, lazily: a record, and no part is touched.

    python -m benchmarks.lazy delete ROOT USER      one delete in this process, as JSON

The log is that of ``benchmarks.drop``; the bounds of no part rule the user out, so each of them may
hold rows. The second delete finds the appends folded by the first. Every run has a fresh copy and
every delete a process of its own. There is no peer: other formats write one file for each part that
a delete touches, and here that would be all of them.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import drop
from benchmarks.measure import MIB, Figures, Usage, run_json
from benchmarks.sizes import Bench
from firnline.errors import InvariantError
from firnline.kernel.engine import Engine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.settings.load import settings_for_root
from firnline.store.access import StoreAccess
from firnline.table import open_table
from tools.memory import peak_mib
from tools.s3server import S3Server

USERS = ("event_042", "event_043")
_KINDS = ("get", "put", "list", "delete", "head")


def _no_engine() -> Engine:
    raise InvariantError("a lazy delete reads no part", next_step="see what it wants to read")


def delete_here(root: str, user: str) -> dict[str, Any]:
    """One delete in this process."""
    table = open_table(settings_for_root(root), StoreAccess.from_env())
    options = DeleteOptions(where=f"event = '{user}'", mode="lazy")
    began, cpu = time.perf_counter(), time.process_time()
    report = run_delete(Work(table, RunIdentity(run_id="bench"), _no_engine), options)
    return {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "peak_mb": peak_mib(),
        "parts": report.parts_hidden,
        **report.requests,
    }


def measure(folder: Path, runs: int, merged: int, appends: int) -> dict[str, list[dict[str, Any]]]:
    """On local disk and on S3 in turn, two deletes each."""
    table = drop.make_log(folder, merged, appends)
    results: dict[str, list[dict[str, Any]]] = {}
    with S3Server(folder / "s3") as server:
        for number in range(runs):
            bucket = f"lazy-{number}"
            on_disk = f"file://{drop.copied(table, 'run')}"
            drop.copied(table, f"s3/{bucket}")
            for place, root, env in (
                ("local disk", on_disk, {}),
                ("S3", f"s3://{bucket}/t", server.env()),
            ):
                for which, user in zip(("first", "second"), USERS, strict=True):
                    found = _in_process(root, user, env)
                    results.setdefault(f"{which} delete, {place}", []).append(found)
    for name in ("run", "s3"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return results


def compare(bench: Bench) -> list[Figures]:
    """The figures of ``measure``. Raises RuntimeError: a delete passed a part over."""
    sizes, figures = bench.sizes, []
    total = sizes.merged_parts + sizes.appends * drop.PER_APPEND
    made = measure(bench.tables / "drop", bench.rounds, sizes.merged_parts, sizes.appends)
    for name, results in made.items():
        one = results[0]
        if one["parts"] != total:
            raise RuntimeError(f"{name} hides rows of {one['parts']} parts of {total}")
        usages = [Usage(r["seconds"], r["cpu"], int(r["peak_mb"] * MIB)) for r in results]
        notes = {
            "parts": one["parts"],
            "requests": sum(one[kind] for kind in _KINDS),
            "bytes_out": one["bytes_out"],
        }
        figures.append(Figures(name, "", usages, notes))
        print(f"  lazy      {name:28s} {figures[-1].median:6.2f} s {notes}")
    return figures


def _in_process(root: str, user: str, env: Mapping[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.lazy", "delete", root, user]
    return run_json(command, env)


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    _, root, user = arguments
    print(json.dumps(delete_here(root, user)))


if __name__ == "__main__":
    main(sys.argv[1:])
