"""``firnline history``: who maintained a table, when, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.common import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
    require_table,
)

if TYPE_CHECKING:
    from firnline.log.txn_file import RunIdentity, TxnHeader

commands = typer.Typer()


@command(commands, "history", ["firnline history flights", "firnline history flights --last 5"])
def history(
    table: TableArgument,
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=1, max=100_000, help="The newest N only.")
    ] = 50,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Maintenance transactions: when, what, by whom, parts, rows, bytes.

    The newest come last. Appends are no transactions; `firnline snapshot` counts their log files.
    """
    from firnline.history import history as read_history

    opened = open_target(table, settings)
    headers = read_history(opened, last)
    if not headers:
        require_table(opened)
    rows = [describe(header) for header in reversed(headers)]
    data = {"table": opened.settings.name, "root": opened.settings.root, "transactions": rows}
    output.show(data, as_json, _render)


def describe(header: TxnHeader) -> dict[str, Any]:
    """One transaction; ``t`` in unix milliseconds, sizes in bytes."""
    import msgspec

    counts = {name: getattr(header.counts, name) for name in header.counts.__struct_fields__}
    return {
        "seq": header.seq,
        "t": header.t,
        "op": header.op,
        "run": msgspec.to_builtins(header.run),
        "by": by_whom(header.run),
        **counts,
        "partitions": list(header.partitions),
        "txn": header.txn,
    }


def by_whom(run: RunIdentity) -> str:
    """A DAG's run with its try, or a person at a machine."""
    if run.dag_id:
        again = f" (try {run.try_number})" if run.try_number > 1 else ""
        return f"{run.dag_id} {run.run_id}{again}"
    person = "@".join(name for name in (run.user, run.host) if name)
    return person or run.run_id or "?"


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    if not data["transactions"]:
        output.line(f"{data['table']} has no maintenance transaction yet.")
        return
    columns = [
        output.Column("seq", number=True),
        output.Column("when"),
        output.Column("op"),
        output.Column("by", wrap=True),
        output.Column("parts", number=True),
        output.Column("rows", number=True),
        output.Column("bytes", number=True),
    ]
    output.table(
        columns,
        (
            [
                output.number(txn["seq"]),
                output.when(txn["t"]),
                txn["op"],
                txn["by"],
                _change(output.number(txn["parts_in"]), output.number(txn["parts_out"])),
                _change(output.number(txn["rows_in"]), output.number(txn["rows_out"])),
                _change(about_size(txn["bytes_in"]), about_size(txn["bytes_out"])),
            ]
            for txn in data["transactions"]
        ),
    )


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"
