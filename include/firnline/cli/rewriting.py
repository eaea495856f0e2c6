"""Output of commands that rewrite parts: the parts to read, and those that failed."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from firnline.cli import output


def show_failures(data: dict[str, Any], as_json: bool) -> None:
    """Print the partitions that could not be read, with reasons."""
    output.show(data, as_json, _render_failures)


def _render_failures(data: dict[str, Any]) -> None:
    columns = [output.Column("partition"), output.Column("not read because", wrap=True)]
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
            output.Column("partition", wrap=True),
            *(output.Column(title, number=True) for title in ("to read", "to drop", "bytes")),
        ]
        output.table(
            columns,
            (
                [name or "-", number(read), number(dropped), about_size(size)]
                for name, (read, dropped, size) in sorted(by_partition.items())
            ),
        )
        output.line()
    if data["left_alone"]:
        columns = [
            output.Column("left alone", number=True),
            output.Column("because each", wrap=True),
        ]
        output.table(columns, ([number(n), why] for why, n in data["left_alone"].items()))
        output.line()
