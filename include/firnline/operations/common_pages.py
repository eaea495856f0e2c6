"""What the pages of several operations have in common: parts to read, drops, and failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from firnline.errors import RunFailedError
from firnline.next_steps import MAY_DELETE
from firnline.pages import Column, Page, number, requests_text
from firnline.units import about_duration, about_size, counted

SHOWN = 20
"""Maximum rows of a list that a page has; ``--json`` has more, of most lists all."""


def add_undeleted(page: Page, failures: Sequence[Mapping[str, str]], count: int) -> None:
    """Add a row for each of the first objects that could not be deleted."""
    if not failures:
        return
    columns = [Column("not deleted", wrap=True), Column("because", wrap=True)]
    page.table(columns, ([f["key"], f["message"]] for f in failures))
    if count > len(failures):
        page.line(f"and {number(count - len(failures))} more")
    page.line()


def add_more(page: Page, left_out: int) -> None:
    """Add how many rows of a list the page has not."""
    if left_out > 0:
        page.line(f"and {number(left_out)} more; --json has them")


def nothing_matches(name: str) -> str:
    """Return what a plan says of a table in which no row can match its condition."""
    return f"No row of {name} can match, and nothing would be changed."


def held_rows(holds: Sequence[str]) -> str:
    """Return which rows stay because of legal holds (``Held.keeping``), as a sentence."""
    return (
        f"Rows under legal holds stay: {', '.join(holds)}. So do those of which a null leaves open "
        "whether a hold covers them."
    )


def sentence(data: Mapping[str, Any]) -> str:
    """Return the totals as ``3 parts with 1,200 rows (1.1 MiB)``."""
    rows, unknown = counted(data["rows"], "row"), data["parts_without_rows"]
    if unknown:
        rows += f" and those of {counted(unknown, 'part')} that do not say"
    return f"{counted(data['parts'], 'part')} with {rows} ({about_size(data['bytes'])})"


def dropped_page(data: Mapping[str, Any]) -> Page:
    """Return the report of a drop or a TTL run."""
    page = Page()
    unknown = data["parts_without_rows"]
    more = f", and those of {counted(unknown, 'part')} that do not say" if unknown else ""
    again = " (by an earlier try of this run)" if data["done_earlier"] else ""
    page.in_short(
        f"dropped: {sentence(data)} of {counted(data['partition_count'], 'partition')}{again}"
    )
    names = [name or "-" for name in data["partitions"][:SHOWN]]
    left_out = data["partition_count"] - len(names)
    page.pairs(
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
    return page


def not_all_deleted(objects: str, name: str) -> RunFailedError:
    """Return the error for objects, such as ``3 orphans``, that a table's run left."""
    return RunFailedError(
        f"{objects} of {name} could not be deleted, for the reasons above",
        next_step=MAY_DELETE,
    )


def failures_page(data: Mapping[str, Any]) -> Page:
    """Return the partitions that could not be read, with reasons."""
    page = Page()
    columns = [Column("partition"), Column("not read because", wrap=True)]
    page.table(columns, ([f["partition"] or "-", f["message"]] for f in data["failures"]))
    page.line()
    return page


def add_groups(page: Page, data: Mapping[str, Any]) -> None:
    """Add the parts to read by partition, and the parts left alone."""
    by_partition: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for group in data["groups"]:
        row = by_partition[group["partition"]]
        row[0] += group["parts"]
        row[2] += group["bytes"]
    for group in data["dropped"]:
        by_partition[group["partition"]][1] += group["parts"]
    if by_partition:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("to read", "to drop", "bytes")),
        ]
        page.table(
            columns,
            (
                [name or "-", number(read), number(dropped), about_size(size)]
                for name, (read, dropped, size) in sorted(by_partition.items())
            ),
        )
        page.line()
    page.reasons("parts", data["left_alone"])
