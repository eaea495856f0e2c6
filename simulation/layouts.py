"""Tables whose layout and statistics change: rows are moved, and markers get bounds of footers.

Most processes know only the first layout, or none; the table's own is in force for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from firnline.errors import FirnlineError
from firnline.operations.analyze.run import run_analyze
from firnline.operations.operation import Work
from firnline.operations.options import AnalyzeOptions, RepartitionOptions
from firnline.operations.properties.run import run_apply
from firnline.operations.repartition.run import run_repartition
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, failed
from firnline.parquet.part import read_pairs
from firnline.parquet.stats import from_table
from firnline.paths import quote_value
from firnline.state.snapshot import Snapshot
from firnline.store.base import Store
from simulation.keyed import Row
from simulation.kinds import settings_of
from simulation.world import Violation

if TYPE_CHECKING:
    from simulation.stage import Stage

_LAYOUTS = (("p",), ("u",), ("p", "u"), ("bucket(2, k)",))
_STATISTICS = ((), ("k",), ("k", "u"))


def change_layout(stage: Stage) -> None:
    """Change by which columns rows are laid out, and of which columns markers state bounds."""
    layout, statistics = stage.r.choice(_LAYOUTS), stage.r.choice(_STATISTICS)
    stage.actor.tell(f"begins: partition_by {layout}, statistics {statistics}")
    wants = settings_of(stage.world.mix, partition_by=layout, statistics=statistics)
    run_apply(stage.with_settings(wants).table, stage.run)


def move_rows(stage: Stage) -> None:
    """Move the rows of partitions of former layouts to the layout of the newest transaction."""
    layout = stage.oracle.times.layout
    stage.actor.tell(f"begins: to {layout}")
    wants = settings_of(stage.world.mix, partition_by=layout)
    own = stage.with_settings(wants)
    run_repartition(Work(own.table, stage.run, stage.engine), RepartitionOptions())


def fill_statistics(stage: Stage) -> None:
    """State bounds that only the footers have."""
    stage.actor.tell("begins")
    run_analyze(Work(stage.table, stage.run), AnalyzeOptions())


def check_bounds(parts: Mapping[str, Sequence[Row]], snapshot: Snapshot) -> None:
    """Compare the bounds of live parts with their rows. Raises Violation."""
    for path, marker in snapshot.live.items():
        rows = [dict(zip("kpu", row, strict=True)) for row in parts[path]]
        for column, (low, high, nulls) in marker.stats().items():
            table = pa.Table.from_pylist(rows)
            if from_table(table, [column])[column] != (low, high, nulls):
                raise Violation(f"{path} is said to hold {column} from {low!r} to {high!r}")


def check_places(parts: Mapping[str, Sequence[Row]], snapshot: Snapshot) -> None:
    """Compare the partitions of live parts with their rows. Raises Violation."""
    for name, markers in snapshot.partitions.items():
        named = dict(level.split("=", 1) for level in name.split("/"))
        for marker in markers:
            for _, p, u in parts[marker.p]:
                here: Mapping[str, str] = {"p": quote_value(p), "u": quote_value(u)}
                if any(here.get(column, value) != value for column, value in named.items()):
                    raise Violation(f"{marker.p} holds a row of {p} and {u}")


def footers_with_bounds(
    store: Store, tasks: Iterable[FooterTask], wanted: FooterWanted
) -> Iterator[FooterFacts]:
    """Replace ``footers.many_facts`` for an analyze; see ``rows.encode``."""
    for task in tasks:
        try:
            part = json.loads(store.get(task.key))
        except FirnlineError as error:
            if error.retryable or error.exit_code != 1:
                raise
            yield failed(task, error, gone=True)
            continue
        pairs = {key.encode(): value.encode() for key, value in part["meta"].items()}
        rows = pa.Table.from_pylist(part["rows"])
        yield FooterFacts(
            key=task.key,
            bytes=task.bytes,
            rows=len(part["rows"]),
            columns=part["columns"],
            stats=from_table(rows, [name for name in wanted.stats if name in part["columns"]]),
            part=read_pairs(task.key, pairs),
        )
