"""CPU of one cycle of the DAG processor, of several checkouts side by side.

    python -m benchmarks.parse BEFORE AFTER [--tables 20 1000] [--rounds 2]

As Airflow's DAG processor does it: a process that has imported Airflow is forked for each DAG file.
The fork imports what the file needs, makes its DAGs, and turns them into the JSON that Airflow's
database keeps. Not measured is comparing or writing them there. CPU is that of the kernel's account
of each fork, user and system, so that other work on the machine changes it little.

Each table has a section ``ttl`` and all operations. Checkouts take turns; medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import load_average

PROCESSOR = """
import importlib.util, json, os, sys, time, types

POLICY = "firnline.airflow.policy"
if importlib.util.find_spec(POLICY) is None:
    # The installed package names it to Airflow, and this checkout has none.
    sys.modules[POLICY] = types.ModuleType(POLICY)

import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

def parse(file):
    began = time.process_time()
    bag = DagBag(file, collect_dags=False)
    bag.collect_dags(file)
    if bag.import_errors:
        raise SystemExit(str(bag.import_errors))
    made = time.process_time()
    size = sum(len(json.dumps(DagSerialization.to_dict(dag))) for dag in bag.dags.values())
    return {"dags": len(bag.dags), "bytes": size, "making": made - began}

for line in sys.stdin:
    file, began, (out, into) = line.strip(), time.perf_counter(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(into, json.dumps(parse(file)).encode())
        os._exit(0)
    os.close(into)
    _, status, usage = os.wait4(child, 0)
    found = json.loads(os.read(out, 65536)) if status == 0 else {"failed": status}
    os.close(out)
    found |= {
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.perf_counter() - began,
        "peak": usage.ru_maxrss * 1024,
    }
    print("PARSED", json.dumps(found), flush=True)
"""


@dataclass(frozen=True)
class Parsed:
    """What one DAG file, or all of them, took."""

    dags: int
    bytes: int
    """Of the DAGs as JSON."""
    making: float
    """CPU seconds until the DAGs were made."""
    cpu: float
    """CPU seconds of the whole process."""
    wall: float
    peak: int
    """Largest resident set of one process, in bytes."""


def total(files: Sequence[Parsed]) -> Parsed:
    """A cycle: all files."""
    return Parsed(
        sum(one.dags for one in files),
        sum(one.bytes for one in files),
        sum(one.making for one in files),
        sum(one.cpu for one in files),
        sum(one.wall for one in files),
        max(one.peak for one in files),
    )


def median(rounds: Sequence[Parsed]) -> Parsed:
    """The medians of rounds."""

    def of(values: Sequence[float]) -> float:
        return statistics.median(values)

    return Parsed(
        rounds[0].dags,
        rounds[0].bytes,
        of([one.making for one in rounds]),
        of([one.cpu for one in rounds]),
        of([one.wall for one in rounds]),
        max(one.peak for one in rounds),
    )


def settings_of(tables: int) -> str:
    """A settings file with so many tables."""
    head = ["defaults:", "  partition_by: [day(ts)]", "  ttl: {keep: 365d}", "tables:"]
    rows = [f"  t{number:04}: {{root: 's3://lake/t{number:04}'}}" for number in range(tables)]
    return "\n".join([*head, *rows, ""])


def cycle(checkout: Path, settings: Path, home: Path) -> dict[str, Parsed]:
    """What each DAG file of a checkout takes with these settings."""
    files = sorted((checkout / "dags").glob("*.py"))
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "0",
        # It knows the schedule of backfills.
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(checkout / "plugins"),
        "FIRNLINE_TABLES": str(settings),
        "PYTHONPATH": f"{checkout / 'include'}:{checkout}",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROCESSOR],
        input="".join(f"{file}\n" for file in files),
        env=env,
        cwd=home,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = [line.split(" ", 1)[1] for line in done.stdout.splitlines() if line[:7] == "PARSED "]
    found = [json.loads(line) for line in said]
    for file, one in zip(files, found, strict=True):
        if "failed" in one:
            raise SystemExit(f"{file} could not be parsed: see above")
    return {file.stem: Parsed(**one) for file, one in zip(files, found, strict=True)}


def show(name: str, one: Parsed) -> None:
    """Print a row of a Markdown table."""
    each = f"{one.bytes / one.dags / 1000:.1f} kB" if one.dags else ""
    print(
        f"| {name} | {one.dags} | {one.making:.2f} | {one.cpu:.2f} | {one.wall:.2f} | "
        f"{one.bytes / 1e6:.2f} MB | {each} | {one.peak / 1e6:.0f} MB |",
        flush=True,
    )


def compare(checkouts: Sequence[Path], tables: int, rounds: int, place: Path) -> None:
    """Print what a cycle takes in each checkout, file by file, and the ratio of first to last."""
    settings = place / "tables.yaml"
    settings.write_text(settings_of(tables), encoding="utf-8")
    found: list[list[dict[str, Parsed]]] = [[] for _ in checkouts]
    for _ in range(rounds):
        for number, checkout in enumerate(checkouts):
            found[number].append(cycle(checkout, settings, place))
    cycles = [median([total(list(one.values())) for one in runs]) for runs in found]
    for checkout, runs, whole in zip(checkouts, found, cycles, strict=True):
        print(f"\n{checkout}, {tables} tables, load {load_average():.1f}\n")
        print("| file | DAGs | CPU s to make them | CPU s in all | wall s | JSON | a DAG | peak |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for file in runs[0]:
            show(f"`{file}`", median([one[file] for one in runs]))
        show("all", whole)
        print("CPU s of each round:", [round(total(list(one.values())).cpu, 2) for one in runs])
    first, last = cycles[0], cycles[-1]
    print(
        f"\n{tables} tables, first to last: {first.cpu:.2f} to {last.cpu:.2f} CPU s "
        f"({first.cpu / last.cpu:.2f} times), {first.dags} to {last.dags} DAGs "
        f"({first.dags / last.dags:.2f} times), {first.bytes / 1e6:.2f} to "
        f"{last.bytes / 1e6:.2f} MB of JSON ({first.bytes / last.bytes:.2f} times)"
    )


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parse")
    parser.add_argument("checkouts", nargs="+", type=lambda text: Path(text).resolve())
    parser.add_argument("--tables", nargs="+", type=int, default=[20, 1_000])
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parse-") as place:
        for tables in given.tables:
            compare(given.checkouts, tables, given.rounds, Path(place))


if __name__ == "__main__":
    main()
