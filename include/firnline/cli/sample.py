"""The flights of some months as a table: appended by the hour, asked, merged, and asked again.

The table is in a folder, or in a bucket; its settings are in a folder either way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from firnline.cli.failures import done
from firnline.errors import StoreError, UsageError
from firnline.paths import Root
from firnline.store.client import open_store

if TYPE_CHECKING:
    import pyarrow as pa

    from firnline.operations.merge.run import MergeReport
    from firnline.table import Table

NAME = "flights"
QUESTION = "sched_dep >= TIMESTAMP '2013-01-10 00:00:00' AND dep_delay > 120"
"""Flights since a day that left two hours late."""
_OWN_S3 = "without a bucket, `make s3` in a clone of firnline starts an S3 on this machine"
_SETTINGS = """\
# The table of `firnline demo`. All settings: docs/settings.md.

tables:
  {name}:
    root: {root}
    partition_by: [month(sched_dep)]
    sort_by: [carrier, sched_dep]
    merge: {{target_size: 64MiB}}
    cleanup: {{grace: 10m}}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """Cost and result of one query."""

    parts: int
    """Live parts of the table."""
    requests: int
    seconds: float
    rows: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The table, and what a merge changed."""

    settings: Path
    rows: int
    appends: int
    seconds: float
    """Of the appends."""
    before: Answer
    merged: MergeReport
    after: Answer


def make_folder(folder: Path, bucket: str | None = None) -> Path:
    """Make the folder; return the settings file.

    Args:
        folder: of the settings, and of the table without ``bucket``.
        bucket: s3://bucket/prefix, below which the table is to be.

    Raises:
        UsageError: the folder is there and not empty; ``bucket`` is no URL of S3.
        StoreError: the store does not let this process in, or has no such bucket.
    """
    if bucket is not None and not bucket.startswith("s3://"):
        raise UsageError(
            f"{bucket!r} is no place on S3", next_step="write s3://bucket or s3://bucket/prefix"
        )
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(
            f"the folder {folder} is there already, and not empty",
            next_step="give another with --folder, or remove it",
        )
    if bucket is None:
        root = f"file://{folder.resolve()}/{NAME}"
    else:
        root = f"{bucket.rstrip('/')}/{NAME}"
        _check_empty(root)
    settings = folder / "include" / "tables.yaml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(_SETTINGS.format(name=NAME, root=json.dumps(root)), encoding="utf-8")
    done(f"{settings} is written")
    return settings


def _check_empty(root: str) -> None:
    """Ask the store for objects below a root on S3, which shows that it lets this process in.

    Raises UsageError if there are some, or StoreError, with what makes an S3 of one's own.
    """
    prefix = Root.parse(root).prefix
    try:
        first = next(iter(open_store(root).list(f"{prefix}/")), None)
    except StoreError as error:
        raise type(error)(error.message, next_step=f"{error.next_step}; {_OWN_S3}") from None
    if first is not None:
        raise UsageError(
            f"there are objects below {root} already, such as {first.key}",
            next_step="give another prefix: --s3 s3://bucket/prefix",
        )


def make(
    folder: Path,
    hours: Sequence[pa.Table],
    tell: Callable[[int], None],
    bucket: str | None = None,
) -> Sample:
    """Append the hours one by one, ask, merge, and ask again.

    Args:
        folder: new folder of the settings, and of the table without ``bucket``.
        hours: rows, an append each.
        tell: called with the number of appends that are done.
        bucket: s3://bucket/prefix, below which the table is to be; credentials and endpoint are
            those of the environment.

    Raises:
        UsageError, StoreError: as ``make_folder``.
    """
    from firnline.api import merge, open_table
    from firnline.appends.append import Appender

    settings = make_folder(folder, bucket)
    table = open_table(NAME, settings=settings)
    appender, began = Appender(table), table.clock.elapsed_ms()
    for number, rows in enumerate(hours, 1):
        appender.append(rows)
        tell(number)
    seconds = (table.clock.elapsed_ms() - began) / 1000
    _ask(table)  # the first answer loads DuckDB
    before = _ask(table)
    merged = merge(table)
    rows_in = sum(rows.num_rows for rows in hours)
    return Sample(settings, rows_in, len(hours), seconds, before, merged, _ask(table))


def _ask(table: Table) -> Answer:
    from firnline.read.scan import scan

    counters = table.store.counters
    first, began = counters.list + counters.get + counters.head, table.clock.elapsed_ms()
    scanned = scan(table, columns=["carrier", "dep_delay"], where=QUESTION)
    rows = scanned.to_arrow().num_rows
    seconds = (table.clock.elapsed_ms() - began) / 1000
    sent = counters.list + counters.get + counters.head - first
    live = len(scanned.plan.task.parts) + sum(scanned.plan.passed_over.values())
    return Answer(live, sent, seconds, rows)


def next_steps(folder: Path, name: str, merged: int) -> list[str]:
    """Return commands to look around with.

    Args:
        folder: of the settings.
        name: of the table.
        merged: the newest transaction of the merge.
    """
    return [
        f"cd {folder}",
        f"firnline health {name}",
        f"firnline timeline {name}",
        f"firnline read {name} --where \"tailnum = 'N725MQ'\"",
        f"firnline delete {name} --where \"carrier = 'AA'\"",
        f"firnline restore {name} --to {merged}",
        f"firnline verify {name} --deep",
    ]
