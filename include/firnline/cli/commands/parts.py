"""``firnline parts``: the live parts of a table, by partition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median_low
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.options import (
    AtOption,
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
    read_state,
)
from firnline.operations.health.histogram import histogram
from firnline.pages import Column
from firnline.units import about_size, counted, format_size

if TYPE_CHECKING:
    from firnline.log.parts_view import Figures
    from firnline.settings.load import MergeSettings, TableSettings
    from firnline.state.snapshot import Snapshot
    from firnline.types.order import Order

PartitionOption = Annotated[
    str | None,
    typer.Option(
        "--partition", metavar="GLOB", help="Only these partitions, as 'ts_month=2013-*'."
    ),
]


commands = typer.Typer()

_WRITERS = 20
"""Writers, or groups of them, that are shown."""
_TITLES = {
    "parts": 0,
    "rows": 0,
    "bytes": 0,
    "smallest": 3,
    "median": 0,
    "largest": 2,
    "small": 0,
}
"""Titles, and how soon their column is left out on a narrow terminal; 0: never."""


@command(
    commands,
    "parts",
    [
        "firnline parts flights",
        "firnline parts flights --partition 'sched_dep_month=2013-0*'",
        "firnline parts s3://lake/events --at 2026-01-31T12:00:00Z --json",
    ],
)
def parts(
    table: TableArgument,
    partition: PartitionOption = None,
    at: AtOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Live parts by partition: how many, rows, bytes, sizes, what they are sorted by.

    Small parts, below 3/4 of merge.target_size and of merge.target_rows, are what a merge is for.
    """
    opened = open_target(table, settings)
    snapshot = read_state(opened, at, silent=as_json)
    data = describe(opened.settings, snapshot, partition)
    # What a merge would do is a matter of the newest state.
    output.show(data, as_json, _render if at is None else _table)


def describe(settings: TableSettings, snapshot: Snapshot, glob: str | None) -> dict[str, Any]:
    """Return figures by partition and in total; sizes in bytes, rows None if a marker lacks them.

    Raises UsageError if no partition matches ``glob``.
    """
    from firnline.log.parts_view import figures, writers
    from firnline.operations.merge.tiers import full_from
    from firnline.properties.in_force import sort_order
    from firnline.state.partitions import choose

    globs = [] if glob is None else [glob]
    chosen = frozenset(choose(snapshot.partitions, globs, of=settings.name))
    policy = settings.merge
    sort_by = sort_order(settings, snapshot.properties)
    orders = {name: counts for name, counts in snapshot.orders() if name in chosen}
    partitions = [one for one in figures(snapshot.partitions) if one.partition in chosen]
    writing = [names for name, names in writers(snapshot.partitions) if name in chosen]
    sizes = [size for one in partitions for size in one.sizes]
    rows = [count for one in partitions for count in one.rows]
    return {
        "table": settings.name,
        "root": settings.root,
        "seq": snapshot.seq,
        "small_below": full_from(policy.target_size),
        "small_below_rows": None if policy.target_rows is None else full_from(policy.target_rows),
        "min_inputs": policy.min_inputs,
        "partitions": [
            {
                "partition": one.partition,
                **_figures(one.sizes, one.rows, policy),
                **_sorted(orders.get(one.partition, Counter()), sort_by),
            }
            for one in partitions
        ],
        "total": _figures(sizes, rows, policy) | _sorted(sum(orders.values(), Counter()), sort_by),
        "writers": _writers(partitions, writing),
    }


def _writers(
    partitions: Sequence[Figures], writing: Sequence[Sequence[tuple[str, ...]]]
) -> list[dict[str, Any]]:
    """Return parts, rows and bytes by who wrote them, the most bytes first.

    ``writers``: names, several for a merge of what several have written; empty: nobody said.
    """
    found: dict[tuple[str, ...], list[tuple[int, int | None]]] = defaultdict(list)
    for one, names in zip(partitions, writing, strict=True):
        for who, size, rows in zip(names, one.sizes, one.rows, strict=True):
            found[who].append((size, rows))
    by_writer = [
        {
            "writers": list(who),
            "parts": len(parts),
            "rows": None if any(n is None for _, n in parts) else sum(n or 0 for _, n in parts),
            "bytes": sum(size for size, _ in parts),
        }
        for who, parts in sorted(found.items())
    ]
    return sorted(by_writer, key=lambda each: -each["bytes"])


def _sorted(orders: Counter[Order], sort_by: Order) -> dict[str, Any]:
    """Return how many parts state which order, the most frequent first.

    ``sort_by`` is today's: parts that state another one are counted too.
    """
    from firnline.types.order import is_other, plain_key

    return {
        "orders": [
            {"sorted_by": [plain_key(key) for key in order], "parts": count}
            for order, count in orders.most_common()
        ],
        "sorted_otherwise": sum(n for order, n in orders.items() if is_other(order, sort_by)),
    }


def _figures(
    unsorted: Sequence[int], rows: Sequence[int | None], policy: MergeSettings
) -> dict[str, Any]:
    from firnline.operations.merge.tiers import is_small

    sizes = sorted(unsorted)
    counts = [count for count in rows if count is not None]
    return {
        "parts": len(sizes),
        "rows": sum(counts) if len(counts) == len(rows) else None,
        "bytes": sum(sizes),
        "smallest": sizes[0] if sizes else None,
        "median": median_low(sizes) if sizes else None,
        "largest": sizes[-1] if sizes else None,
        "small": sum(is_small(b, n, policy) for b, n in zip(unsorted, rows, strict=True)),
        "sizes": histogram(sizes),
    }


def _render(data: dict[str, Any]) -> None:
    _table(data)
    output.line()
    output.line(_summary(data))
    if other := data["total"]["sorted_otherwise"]:
        output.line(
            f"{counted(other, 'part')} state another order than sort_by: "
            f"`firnline merge {data['table']} --full` sorts {'it' if other == 1 else 'them'} again."
        )


def _table(data: dict[str, Any]) -> None:
    total = data["total"]
    columns = [
        Column("partition", wrap=True),
        *(Column(title, number=True, dispensable=rank) for title, rank in _TITLES.items()),
        Column("4K … 1G", style="cyan", dispensable=1),
    ]
    stated = any(each["sorted_by"] for each in total["orders"])
    if stated:
        columns.append(Column("sorted by", dispensable=2))

    def cells(row: dict[str, Any]) -> list[str]:
        return [*_cells(row), *([_orders(row["orders"])] if stated else [])]

    rows = [[row["partition"] or "-", *cells(row)] for row in data["partitions"]]
    output.table(columns, rows, [f"{len(rows)} in all", *cells(total)] if len(rows) > 1 else None)
    _written_by(data["writers"])


def _written_by(found: list[dict[str, Any]]) -> None:
    """Print how much each writer wrote, if one has given itself a name."""
    if not any(each["writers"] for each in found):
        return
    rows = [
        [
            ", ".join(each["writers"]) or "not stated",
            output.number(each["parts"]),
            output.number(each["rows"]),
            about_size(each["bytes"]),
        ]
        for each in found[:_WRITERS]
    ]
    titles = (Column(title, number=True) for title in ("parts", "rows", "bytes"))
    output.line()
    output.table([Column("written by", wrap=True), *titles], rows)
    if len(found) > _WRITERS:
        output.line(f"… and {output.number(len(found) - _WRITERS)} more: --json lists them")


def _orders(orders: list[dict[str, Any]]) -> str:
    """Return the orders in words, the number of parts behind each where there are several."""
    from firnline.types.order import SortKey

    def text(key: str | dict[str, Any]) -> str:
        return key if isinstance(key, str) else str(SortKey(**key))

    texts = [", ".join(map(text, each["sorted_by"])) or "not stated" for each in orders]
    if len(texts) < 2:
        return "".join(texts)
    return "; ".join(
        f"{words} ({each['parts']})" for words, each in zip(texts, orders, strict=True)
    )


def _cells(row: dict[str, Any]) -> list[str]:
    sizes = (row["bytes"], row["smallest"], row["median"], row["largest"])
    return [
        output.number(row["parts"]),
        output.number(row["rows"]),
        *("-" if size is None else about_size(size) for size in sizes),
        output.percent(row["small"], row["parts"]),
        output.spark(row["sizes"]),
    ]


def _summary(data: dict[str, Any]) -> str:
    total, name, number = data["total"], data["table"], output.number
    if not total["parts"]:
        return f"{name} has no live part."
    small = f"small is below {format_size(data['small_below'])}, 3/4 of merge.target_size"
    if data["small_below_rows"] is not None:
        small += f", and {number(data['small_below_rows'])} rows, 3/4 of merge.target_rows"
    if all(row["small"] < data["min_inputs"] for row in data["partitions"]):
        return f"{small[:1].upper()}{small[1:]}. No partition has enough small parts to merge."
    return (
        f"{number(total['small'])} of {number(total['parts'])} parts are small ({small}): "
        f"`firnline plan merge {name}` shows what a merge would do."
    )
