"""``firnline history``: the maintenance transactions of a table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    looking,
    open_target,
    require_table,
)
from firnline.pages import Column
from firnline.units import about_size

if TYPE_CHECKING:
    from firnline.log.txn_file import RunIdentity, TxnHeader

commands = typer.Typer()

_WRITERS = 5
"""Writers whose appends are named in one row."""


@command(commands, "history", ["firnline history flights", "firnline history flights --last 5"])
def history(
    table: TableArgument,
    last: Annotated[
        int,
        typer.Option(
            "--last",
            metavar="N",
            min=1,
            max=100_000,
            help="Number of transactions to show, the newest ones.",
        ),
    ] = 50,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Maintenance transactions: when, what, by whom, parts, rows, bytes, whose appends.

    One after the other, the newest last: each was committed on the state right after the one
    before it. A number can be given wherever a time is asked for (`snapshot --at`, `diff`), and to
    `restore --to`. Appends are no transactions; `firnline snapshot` counts their log files. The
    next transaction takes them in, and says whose they were if one of them had a --writer.
    """
    from firnline.state.history import history as read_history

    opened = open_target(table, settings)
    with looking(opened, silent=as_json):
        headers = read_history(opened, last)
    if not headers:
        require_table(opened)
    rows = [describe(header) for header in reversed(headers)]
    data = {"table": opened.settings.name, "root": opened.settings.root, "transactions": rows}
    output.show(data, as_json, _render)


def describe(header: TxnHeader) -> dict[str, Any]:
    """Return one transaction as plain data; ``t`` in unix milliseconds, sizes in bytes."""
    import msgspec

    from firnline.state.history import by_whom

    counts = {name: getattr(header.counts, name) for name in header.counts.__struct_fields__}
    return {
        "seq": header.seq,
        "t": header.t,
        "op": header.op,
        "run": msgspec.to_builtins(header.run),
        "by": by_whom(header.run),
        **counts,
        "appends": [msgspec.structs.asdict(each) for each in header.appends],
        "partitions": list(header.partitions),
        "why": header.why,
        "link": link(header.run),
        "txn": header.txn,
    }


def link(run: RunIdentity) -> str | None:
    """Return the URL of the run in Airflow; None without ``AIRFLOW__API__BASE_URL``."""
    from urllib.parse import quote

    base = os.environ.get("AIRFLOW__API__BASE_URL", "").rstrip("/")
    if not base or not run.dag_id:
        return None
    return f"{base}/dags/{quote(run.dag_id, safe='')}/runs/{quote(run.run_id, safe='')}"


def _what(txn: dict[str, Any]) -> str:
    """Return the operation with its description, or with the partitions that changed."""
    if txn["why"]:
        return f"{txn['op']} {txn['why']}"
    names = [name for name in txn["partitions"] if name]
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"{txn['op']} {names[0]}{more}" if names else str(txn["op"])


def _render(data: dict[str, Any]) -> None:
    if not data["transactions"]:
        output.line(f"{data['table']} has no maintenance transaction yet.")
        return
    columns = [
        Column("seq", number=True),
        Column("when"),
        Column("what", wrap=True),
        Column("by", wrap=True, dispensable=1),
        Column("parts", number=True),
        Column("rows", number=True, dispensable=2),
        Column("bytes", number=True, dispensable=3),
    ]
    told = any(txn["appends"] for txn in data["transactions"])
    if told:
        columns.append(Column("took in", wrap=True, dispensable=2))
    output.table(
        columns, ([*_cells(txn), *([_took_in(txn)] * told)] for txn in data["transactions"])
    )


def _cells(txn: dict[str, Any]) -> list[str | list[str]]:
    return [
        output.number(txn["seq"]),
        output.when(txn["t"]),
        _what(txn),
        [text for text in (txn["by"], txn["link"]) if text],
        _change(output.number(txn["parts_in"]), output.number(txn["parts_out"])),
        _rows(txn),
        _change(about_size(txn["bytes_in"]), about_size(txn["bytes_out"])),
    ]


def _rows(txn: dict[str, Any]) -> list[str]:
    """Return rows before and after, and below them how many got other values, if any did."""
    change = _change(output.number(txn["rows_in"]), output.number(txn["rows_out"]))
    changed = txn["rows_changed"]
    return [change, f"{output.number(changed)} changed"] if changed else [change]


def _took_in(txn: dict[str, Any]) -> list[str]:
    """Return a line for each writer whose appends a transaction took in, the most rows first."""
    from firnline.log.taken_in import TakenIn

    lines = [TakenIn(**each).in_words() for each in txn["appends"]]
    more = len(lines) - _WRITERS
    return [*lines[:_WRITERS], *([f"and {more} more: --json has them"] if more > 0 else [])]


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"
