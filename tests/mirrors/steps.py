"""The operations after which every engine has to see the rows of the table, and who reads them.

``docs/mirrors.md`` has a table of readers and operations. The tests read it: a cell that says
``rows`` is played, and has to be true; a row or a column that no test knows is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.erase.run import run_erase
from firnline.operations.evolve.run import run_lazily
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.run import run_mirror
from firnline.operations.options import (
    DeleteOptions,
    DropOptions,
    EraseOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    MirrorOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    SchemaFixOptions,
    TtlOptions,
)
from firnline.operations.replace.run import run_replace
from firnline.operations.restore.run import run_restore
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.schema_fix.run import run_schema_fix
from firnline.operations.ttl.run import run_ttl
from firnline.state.snapshot import read_snapshot
from tests.mirrors.conftest import Mirrored
from tools.bootstrap import REPO

RUN = RunIdentity(run_id="r")
DELTA = ("deltalake", "DataFusion", "Polars", "Spark, Delta")
ICEBERG = ("pyiceberg", "Polars, Iceberg", "Spark, Iceberg")
VECTORS = "lazy delete, by vectors"
"""Row of the table that ``test_vectors`` plays; ``test_spark`` plays the columns of Spark."""
ROWS, REFUSED, NOT_TESTED = "rows", "refused", "-"


def claimed() -> dict[str, dict[str, str]]:
    """The table of the page: operation -> reader -> cell."""
    text = (REPO / "docs" / "mirrors.md").read_text(encoding="utf-8")
    lines = text.split("### Readers and operations\n", 1)[1].split("\n#", 1)[0].splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    (_, *readers), _, *rows = cells
    return {name: dict(zip(readers, found, strict=True)) for name, *found in rows}


def readers_of(operation: str) -> set[str]:
    """The readers that the page says to show the rows after an operation."""
    return {reader for reader, cell in claimed()[operation].items() if cell == ROWS}


def append(mirrored: Mirrored) -> None:
    for first in (0, 6, 12):
        mirrored.append(first)


def merge(mirrored: Mirrored) -> None:
    run_merge(mirrored.table(), mirrored.engine, MergeOptions(full=True), RUN)


def delete(mirrored: Mirrored) -> None:
    run_delete(mirrored.table(), mirrored.engine, DeleteOptions(where="k in (1, 7)"), RUN)


def rewrite(mirrored: Mirrored) -> None:
    run_rewrite(mirrored.table(), mirrored.engine, RewriteOptions(where="k <> 8", force=True), RUN)


def replace(mirrored: Mirrored) -> None:
    interval = ReplaceOptions(column="k", start=2, end=4)
    run_replace(mirrored.table(), mirrored.engine, interval, RUN, data=mirrored.made(2, 1))


def drop(mirrored: Mirrored) -> None:
    found = read_snapshot(mirrored.table().store, mirrored.table().paths).partitions
    mine = next(name for name in found if name.startswith("ts_day=2024-03-05/p=a%20b"))
    run_drop(mirrored.table(), DropOptions(partitions=(mine,)), RUN)


def erase(mirrored: Mirrored) -> None:
    run_erase(mirrored.table(), mirrored.engine, EraseOptions(columns=("k",), keys=((5,),)), RUN)


def new_column(mirrored: Mirrored) -> None:
    mirrored.append(18, 3, later=2.5)


def widen(mirrored: Mirrored) -> None:
    run_lazily(mirrored.table(), LazyOptions(evolution=Evolution(widen={"k": "BIGINT"})), RUN)


def rename(mirrored: Mirrored) -> None:
    evolution = Evolution(rename={"raw": "bytes"}, drop=("flag",))
    run_schema_fix(mirrored.table(), mirrored.engine, SchemaFixOptions(evolution=evolution), RUN)


def restore(mirrored: Mirrored) -> None:
    """What readers saw go comes back."""
    table = mirrored.table()
    before = read_snapshot(table.store, table.paths).seq
    run_delete(mirrored.table(), mirrored.engine, DeleteOptions(where="k > 9"), RUN)
    run_mirror(mirrored.table(), MirrorOptions(), RUN)
    run_restore(mirrored.table(), RestoreOptions(to=before), RUN)


def ttl(mirrored: Mirrored) -> None:
    run_ttl(mirrored.table(ttl={"keep": "30d"}), TtlOptions(), RUN)


@dataclass(frozen=True)
class Step:
    """One operation, and the keys that are there after it."""

    name: str
    play: Callable[[Mirrored], None]
    gone: tuple[int, ...] = ()
    come: tuple[int, ...] = ()


STEPS = (
    Step("append", append, come=tuple(range(18))),
    Step("merge", merge),
    Step("delete", delete, gone=(1, 7)),
    Step("rewrite", rewrite, gone=(8,)),
    Step("replace", replace, gone=(3,)),
    Step("drop of partitions", drop, gone=(0,)),
    Step("erase", erase, gone=(5,)),
    Step("new column", new_column, come=(18, 19, 20)),
    Step("wider type", widen),
    Step("rename and drop of columns", rename),
    Step("restore", restore),
    Step("TTL", ttl, gone=tuple(range(21))),
)


def play(mirrored: Mirrored) -> Iterator[tuple[str, list[int]]]:
    """Play all of them, one after the other; yields each name and the keys after it."""
    keys: set[int] = set()
    for step in STEPS:
        step.play(mirrored)
        keys = keys.difference(step.gone).union(step.come)
        yield step.name, sorted(keys)
