"""Output that several commands share: parts to read, partitions dropped, and what failed."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from firnline.cli import output
from firnline.cli.output import requests_text
from firnline.errors import RunFailedError
from firnline.pages import Column
from firnline.units import counted


def show_undeleted(failures: list[dict[str, str]], count: int) -> None:
    """Print a row for each of the first objects that could not be deleted."""
    if not failures:
        return
    columns = [Column("not deleted", wrap=True), Column("because", wrap=True)]
    output.table(columns, ([f["key"], f["message"]] for f in failures))
    if count > len(failures):
        output.line(f"and {output.number(count - len(failures))} more")
    output.line()


SHOWN = 20
"""Maximum partitions that are printed; ``--json`` has all."""


def sentence(data: dict[str, Any]) -> str:
    """Return the totals as ``3 parts with 1,200 rows (1.1 MiB)``."""
    from firnline.units import about_size

    rows, unknown = counted(data["rows"], "row"), data["parts_without_rows"]
    if unknown:
        rows += f" and those of {counted(unknown, 'part')} that do not say"
    return f"{counted(data['parts'], 'part')} with {rows} ({about_size(data['bytes'])})"


def render_report(data: dict[str, Any]) -> None:
    """Print the report of a drop or a TTL run."""
    from firnline.units import about_duration, about_size

    number = output.number
    unknown = data["parts_without_rows"]
    more = f", and those of {counted(unknown, 'part')} that do not say" if unknown else ""
    again = " (by an earlier try of this run)" if data["done_earlier"] else ""
    names = [name or "-" for name in data["partitions"][:SHOWN]]
    left_out = data["partition_count"] - len(names)
    output.pairs(
        [
            ("dropped", counted(data["parts"], "part")),
            ("rows", f"{number(data['rows'])}{more}"),
            ("bytes", f"{about_size(data['bytes'])}, freed by clean-up after the grace"),
            ("partitions", ", ".join(names) + (f" and {number(left_out)} more" * (left_out > 0))),
            ("transaction", f"{number(data['transaction'])}{again}"),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )


def not_all_deleted(objects: str, name: str) -> RunFailedError:
    """Return the error for objects, such as ``3 orphans``, that a table's run left."""
    return RunFailedError(
        f"{objects} of {name} could not be deleted, for the reasons above",
        next_step="see that the credentials may delete there and run it again",
    )


def render_failures(data: dict[str, Any]) -> None:
    """Print the partitions that could not be read, with reasons."""
    columns = [Column("partition"), Column("not read because", wrap=True)]
    output.table(columns, ([f["partition"] or "-", f["message"]] for f in data["failures"]))
    output.line()


def groups_table(data: dict[str, Any]) -> None:
    """Print the parts to read by partition, and the parts left alone."""
    from firnline.units import about_size

    number = output.number
    by_partition: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for found in data["groups"]:
        row = by_partition[found["partition"]]
        row[0] += found["parts"]
        row[2] += found["bytes"]
    for found in data["dropped"]:
        by_partition[found["partition"]][1] += found["parts"]
    if by_partition:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("to read", "to drop", "bytes")),
        ]
        output.table(
            columns,
            (
                [name or "-", number(read), number(dropped), about_size(size)]
                for name, (read, dropped, size) in sorted(by_partition.items())
            ),
        )
        output.line()
    output.reasons("parts", data["left_alone"])
