"""Every section of the benchmarks, played small: it runs, and what it states is what it did."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bloom, cluster, cold, contenders, many, policy, proof, snapshot, wide
from benchmarks.measure import environment
from benchmarks.replace import WHAT as REPLACES
from benchmarks.sections import SECTIONS
from benchmarks.sizes import SMALL
from tools.bootstrap import REPO
from tools.s3server import S3Server

Found = dict[str, dict[str, Any]]
"""Contender -> its notes, what it is, and its rounds."""
ON_SPARK = ("sorted", "sorted parts", "unsorted", "many small", "small", "read")
LONG = ("appender", "mirror")
"""Sections without Spark that take minutes even when they are played small."""
WITHOUT = tuple(name for name in SECTIONS if name not in {*ON_SPARK, *LONG, "cold"})
MERGED_ROWS = SMALL.merge_files * SMALL.merge_rows
TOTAL = SMALL.merged_parts + 100 * SMALL.appends


def played(section: str, folder: Path) -> Found:
    """One round of a section, in a process and a folder of its own."""
    cache, figures = folder / "cache", folder / "figures.json"
    command = [sys.executable, "-m", "benchmarks", section.replace(" ", "-"), "--small"]
    command += ["--rounds=1", f"--cache={cache}", f"--figures={figures}"]
    done = subprocess.run(
        command, cwd=REPO, env=environment({}), capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    assert not (cache / "work").exists(), "the work is put away"
    said = json.loads(figures.read_text())
    found: Found = {one["name"]: one for one in said[section]}
    assert len(found) == len(said[section]), "contenders have names of their own"
    check(section, found)
    return found


def check(section: str, found: Found) -> None:
    """All contenders are there, each with one round that took time, and say what they did."""
    for name, one in found.items():
        ((seconds, cpu, peak),) = one["rounds"]
        untimed = section == "policy" or name.startswith("SIGKILL")
        assert untimed == (seconds == 0), name
        assert cpu >= 0, name
        assert peak >= 0 or section == "memory", name  # of which the process before is taken away
    CHECKS[section](found)


def notes(found: Found, key: str) -> set[object]:
    return {one["notes"][key] for one in found.values()}


def all_of(*names: str) -> Callable[[Found], None]:
    def checked(found: Found) -> None:
        assert list(found) == list(names)

    return checked


def merges(kind: str) -> Callable[[Found], None]:
    def checked(found: Found) -> None:
        assert list(found) == list(contenders.KINDS[kind])
        assert min(one["notes"]["bytes_out"] for one in found.values()) > 0
        ours = [one for name, one in found.items() if name.startswith("firnline")]
        assert {one["notes"]["files_out"] for one in ours} == {contenders.GROUPS}

    return checked


def wide_ones(names: object) -> Callable[[Found], None]:
    def checked(found: Found) -> None:
        assert list(found) == names
        assert notes(found, "files_out") == {1}
        assert min(one["notes"]["bytes_out"] for one in found.values()) > 0

    return checked


def many_small(found: Found) -> None:
    (groups,) = SMALL.many_groups
    assert list(found) == [f"{name}, {groups} groups" for name in many.CONTENDERS]
    assert notes(found, "files_out") == {groups}
    assert min(one["notes"]["ms_a_group"] for one in found.values()) > 0


def cold_ones(found: Found) -> None:
    assert list(found) == list(cold.CONTENDERS)
    assert {found[name]["notes"]["files_out"] for name in cold.OURS} == {contenders.GROUPS}


def small(found: Found) -> None:
    assert len(found) == 5
    assert "firnline, nothing to do" in found


def memory(found: Found) -> None:
    assert [one["notes"]["rows_out"] for one in found.values()] == [8 * SMALL.memory_rows] * 3
    assert next(one["notes"]["files_out"] for one in found.values()) == 1


def proofs(found: Found) -> None:
    orders = ("sorted", "unsorted")
    assert list(found) == [f"{order}, {kind}" for order in orders for kind in proof.KINDS]


def cleaned(found: Found) -> None:
    who, where = ("firnline", "delta-rs"), ("S3", "local disk")
    assert list(found) == [f"{name}, {store}" for store in where for name in who]
    assert notes(found, "deleted") == {SMALL.cleaned}


def drops(found: Found) -> None:
    assert [one["notes"]["parts"] for one in found.values()] == [20, 20, 200, 30]


def lazily(found: Found) -> None:
    assert len(found) == 4
    assert notes(found, "parts") == {TOTAL}


def appends(found: Found) -> None:
    ways = SMALL.appended.what().values()
    assert len(found) == 2 * len(ways) + 2
    for name, one in found.items():
        if name.startswith("SIGKILL"):
            assert ", 0 acknowledged and lost, 0 doubled," in one["what"], name
        else:
            assert one["notes"]["flushes"] > 0, name
            assert one["notes"]["rows"] in {SMALL.appended.rows, SMALL.appended.batches}, name


def clusters(found: Found) -> None:
    assert list(found) == list(cluster.WAYS)
    assert all(set(cluster.FILTERS) <= set(one["notes"]) for one in found.values())


def blooms(found: Found) -> None:
    assert list(found) == list(bloom.WAYS)
    sizes = [float(one["notes"]["MB"]) for one in found.values()]
    assert sizes[0] == min(sizes), "filters are bytes"


def reads(found: Found) -> None:
    assert {name.partition(",")[0] for name in found} == {
        "firnline",
        "firnline's frame",
        "firnline's data source",
        "plain",
    }
    assert all(float(one["notes"]["x plain"]) > 0 for one in found.values())


def mirrors(found: Found) -> None:
    (size,) = SMALL.mirrored.sizes
    for name in (
        f"Delta, {size} parts: first version",
        f"Delta, {size} parts: checkpoint",
        f"Iceberg, {size} parts: nothing new",
    ):
        assert found[name]["notes"]["requests"] > 0
    assert sum(name.startswith(("DataFusion", "Polars")) for name in found) == 4


def erased(parts: int) -> Callable[[Found], None]:
    def checked(found: Found) -> None:
        assert list(found) == ["firnline", "DuckDB"]
        ours = found["firnline"]["notes"]
        assert (ours["parts_read"], ours["parts_rewritten"]) == (SMALL.merge_files, parts)
        assert 0 < ours["rows_erased"] < MERGED_ROWS

    return checked


def requested(found: Found) -> None:
    assert list(found) == ["one run", "erases"]
    together, apart = (found[name]["notes"] for name in found)
    assert together["rows_erased"] == apart["rows_erased"] > 0
    assert together["bytes_out"] < apart["bytes_out"]


def planned(found: Found) -> None:
    tables, rows, parts, few, many = SMALL.planned
    assert list(found) == [f"{few:,} people", f"{many:,} people"]
    assert notes(found, "rows") == {tables * rows}
    (every,) = notes(found, "parts")
    assert tables * parts // 2 < int(str(every)) < tables * parts * 2
    to_rewrite = [one["notes"]["parts_to_rewrite"] for one in found.values()]
    assert (to_rewrite[0], to_rewrite[1]) == (tables * few, every)
    assert all("GET" in str(sent) for sent in notes(found, "requests_by_kind"))


def replaced(found: Found) -> None:
    assert list(found) == [title for title, _ in REPLACES.values()]
    parts = SMALL.replaced_rows // SMALL.replaced_part
    assert notes(found, "parts") == {parts}
    assert 0 < found["firnline replace, eager"]["notes"]["parts_rewritten"] < parts


def policies(found: Found) -> None:
    assert list(found) == list(policy.RULES)
    cells = [str(cell).split(" / ") for one in found.values() for cell in one["notes"].values()]
    assert len(cells) == len(policy.RULES) * len(policy.VOLUMES) * len(policy.SHAPES)
    assert all(float(closed) >= 1 for closed, _, _ in cells), "no partition is empty"


CHECKS: dict[str, Callable[[Found], None]] = {
    **{kind: merges(kind) for kind in contenders.KINDS},
    "wide": wide_ones(list(wide.MERGES)),
    "many small": many_small,
    "append": wide_ones(list(wide.APPENDS)),
    "cold": cold_ones,
    "small": small,
    "memory": memory,
    "proof": proofs,
    "snapshot": all_of(*snapshot.READERS),
    "cleanup": cleaned,
    "drop": drops,
    "lazy": lazily,
    "appender": appends,
    "cluster": clusters,
    "bloom": blooms,
    "read": reads,
    "mirror": mirrors,
    "erase": erased(SMALL.merge_files),
    "erase few": erased(10),
    "requests": requested,
    "requests planned": planned,
    "replace": replaced,
    "policy": policies,
}


@pytest.fixture(autouse=True)
def _store(s3_server: S3Server) -> None:
    """Sections start servers of their own: where there is no program for one, they are skipped."""


def test_each_section_is_played_and_checked() -> None:
    assert set(CHECKS) == set(SECTIONS) == {*WITHOUT, *LONG, *ON_SPARK, "cold"}


@pytest.mark.turn("a section of the benchmarks")
@pytest.mark.parametrize("section", WITHOUT)
def test_a_section(section: str, tmp_path: Path) -> None:
    played(section, tmp_path)


@pytest.mark.full("takes minutes")
@pytest.mark.parametrize("section", [*LONG, *ON_SPARK])
def test_a_long_section(section: str, tmp_path: Path) -> None:
    played(section, tmp_path)


@pytest.mark.full("fetches the Spark that Iceberg is read with, 600 MB")
def test_the_section_with_iceberg(tmp_path: Path) -> None:
    played("cold", tmp_path)
