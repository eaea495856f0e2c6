"""Options of a merge and the output of its plan, for `merge` and `plan merge`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output

if TYPE_CHECKING:
    from firnline.operations.merge.groups import MergePlan
    from firnline.operations.merge.run import MergeOptions
    from firnline.settings.load import TableSettings

MaxBytesOption = Annotated[
    str | None,
    typer.Option(
        "--max-bytes",
        metavar="SIZE",
        help="Read at most this, as 10GiB; without it the table's merge.max_bytes_per_run.",
    ),
]


def merge_options(
    partitions: Sequence[str] | None, max_bytes: str | None, dry_run: bool = False
) -> MergeOptions:
    """Return the options of the command line. Raises UsageError."""
    from firnline.operations.merge.run import MergeOptions
    from firnline.units import parse_size

    bound = None if max_bytes is None else parse_size(max_bytes)
    return MergeOptions(partitions=tuple(partitions or ()), max_bytes=bound, dry_run=dry_run)


def show_plan(settings: TableSettings, plan: MergePlan, as_json: bool) -> None:
    """Print a plan."""
    data = {"table": settings.name, "root": settings.root, **plan.to_json()}
    data["sql"] = settings.merge.sql
    output.show(data, as_json, _render)


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number = output.number
    if data["groups"]:
        columns = [
            output.Column("partition", wrap=True),
            *(output.Column(title, number=True) for title in ("parts in", "parts out", "bytes")),
        ]
        rows = [
            [name or "-", number(parts), number(outputs), about_size(size)]
            for name, (parts, outputs, size) in _by_partition(data["groups"]).items()
        ]
        whole = [number(data["parts_in"]), number(data["parts_out"]), about_size(data["bytes_in"])]
        output.table(columns, rows, [f"{len(rows)} in all", *whole] if len(rows) > 1 else None)
        output.line()
    _render_reasons(data["left_alone"])
    output.line(_summary(data))


def _by_partition(groups: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int, int]]:
    """Return parts, outputs and bytes by partition, in the order of the plan."""
    found: dict[str, tuple[int, int, int]] = {}
    for planned in groups:
        parts, count, size = found.get(planned["partition"], (0, 0, 0))
        added = (parts + planned["parts"], count + planned["outputs"], size + planned["bytes"])
        found[planned["partition"]] = added
    return found


def _render_reasons(left_alone: dict[str, int]) -> None:
    if not left_alone:
        return
    columns = [output.Column("left alone", number=True), output.Column("because each", wrap=True)]
    rows = [[output.number(count), reason] for reason, count in left_alone.items()]
    output.table(columns, rows)
    output.line()


def _summary(data: dict[str, Any]) -> str:
    from firnline.units import about_size

    name, number = data["table"], output.number
    said = []
    if data["parts_hidden"]:
        said.append(
            f"{number(data['parts_hidden'])} parts, of which deletes hide every row "
            f"({number(data['rows_hidden'])}), would go without being read."
        )
    if data["groups"]:
        said.append(
            f"{number(data['parts_in'])} parts would become {number(data['parts_out'])}: about "
            f"{about_size(data['bytes_in'])} to read, at most as much to write, and "
            f"{number(data['requests'])} requests besides reading the log."
        )
        said += ["merge.sql would be applied to their rows."] * (data["sql"] is not None)
    return " ".join(said) or f"Nothing to merge in {name}."
