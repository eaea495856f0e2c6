"""``firnline rewrite``: rewrite partitions by a filter or a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption, look_first
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    identity,
    open_target,
    require_table,
)
from firnline.cli.output import requests_text
from firnline.cli.progress import reading
from firnline.errors import RunFailedError, TooMuchRemovedError
from firnline.operations.options import RewriteOptions
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.kernel.engine import Engine
    from firnline.operations.rewrite.run import RewriteReport
    from firnline.table import Table

commands = typer.Typer()
SHOWN = 20
"""Maximum partitions that are printed; ``--json`` has up to 1,000."""


@command(
    commands,
    "rewrite",
    [
        'firnline rewrite flights --where "dep_delay is not null" --dry-run',
        "firnline rewrite flights --where \"carrier != 'HA'\" --partitions '*-01' --yes",
        "firnline rewrite t --sql 'from _rows limit 9' --from 2013-02-01 --until 2013-03-01",
    ],
)
def rewrite(
    table: TableArgument,
    options: RewriteOptions,
    yes: YesOption = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Rewrite partitions by a filter or a query.

    All or nothing for each partition, one transaction each; partitions that are done stay done
    when a later one fails. Under Airflow the DAG rewrite_partitions__TABLE does the same, also as a
    backfill over dates.
    """
    opened = open_target(table, settings)
    require_table(opened)
    from firnline.operations.rewrite.run import preview

    with engine_for("rewrite", opened, engine, master, scratch) as factory:
        if not look_first(
            opened,
            lambda: preview(opened, options),
            _render_plan,
            dry_run=options.dry_run,
            yes=yes,
            as_json=as_json,
        ):
            return
        _rewrite(opened, factory, options, as_json)


def _rewrite(
    table: Table, engine: Callable[[], Engine], options: RewriteOptions, as_json: bool
) -> None:
    """Run the rewrite and print the report, even with failed partitions."""
    from firnline.operations.rewrite.run import RewriteFailedError, RewriteRefusedError, run_rewrite

    name = table.settings.name
    stopped = f"stopped; partitions of {name} that are committed stay, the others are as they were"

    output.show_run(
        lambda tell: run_rewrite(table, engine, options, identity(table), tell),
        reading("rewriting", name, table.clock, silent=as_json),
        as_json,
        _render,
        stopped=(stopped, f"see `firnline history {name}`, then run it again"),
        failed=(RewriteFailedError, RewriteRefusedError),
        shorten=lambda report: _shortened(name, report),
    )


def _shortened(name: str, report: RewriteReport) -> RunFailedError | TooMuchRemovedError:
    """Return a short form of the error: the printed report has the reasons by partition."""
    failed = len({failure.partition for failure in report.failures})
    what = f"{failed} of {report.partition_count} partitions of {name} are as they were"
    if report.refused:
        return TooMuchRemovedError(
            f"{what}: too many of their rows would vanish",
            next_step="see whether --where says which rows stay, not which go; then give --force",
        )
    return RunFailedError(
        f"{what}, for the reasons above",
        next_step="repair what is named and run it again for those partitions",
    )


def _render_plan(data: dict[str, Any]) -> None:
    from firnline.units import about_size

    number, name = output.number, data["table"]
    if data["partitions"]:
        columns = [
            output.Column("partition", wrap=True),
            *(output.Column(title, number=True) for title in ("to read", "to drop", "bytes")),
        ]
        rows = [
            [
                found["partition"] or "-",
                number(found["parts_to_read"]),
                number(found["parts_to_drop"]),
                about_size(found["bytes"]),
            ]
            for found in data["partitions"]
        ]
        output.table(columns, rows)
        output.line()
    if data["left_alone"]:
        columns = [
            output.Column("left alone", number=True),
            output.Column("because each", wrap=True),
        ]
        output.table(columns, ([number(n), why] for why, n in data["left_alone"].items()))
        output.line()
    if not data["partitions"]:
        output.line(f"Nothing to rewrite in {name}.")
        return
    text = (
        f"{counted(data['parts_to_read'], 'part')} of {name} would be read (about "
        f"{about_size(data['bytes_in'])}), with at most {number(data['requests'])} requests "
        "besides reading the log"
    )
    if data["parts_to_drop"]:
        text += (
            f"; {counted(data['parts_to_drop'], 'part')} would go unread: none of their rows stays"
        )
    output.line(f"{text}.")


def _render(data: dict[str, Any]) -> None:
    from firnline.units import about_duration, about_size

    number, counts = output.number, data["counts"]
    if data["failures"]:
        columns = [output.Column("partition"), output.Column("as it was because", wrap=True)]
        output.table(columns, ([f["partition"] or "-", f["message"]] for f in data["failures"]))
        output.line()
    if data["partitions"]:
        _table(data)
    if not data["transactions"]:
        output.line(f"Nothing changed in {data['table']}.")
        return
    output.pairs(
        [
            ("rows", f"{number(counts.get('rows_removed', 0))} vanished"),
            (
                "parts",
                (
                    f"{number(counts['parts_in'])} → {number(counts.get('parts_out', 0))}; "
                    f"{number(data['parts_untouched'])} read and left as they are"
                ),
            ),
            (
                "bytes",
                f"{about_size(counts['bytes_in'])} → {about_size(counts.get('bytes_out', 0))}",
            ),
            ("transactions", number(len(data["transactions"]))),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )


def _table(data: dict[str, Any]) -> None:
    number = output.number
    columns = [
        output.Column("partition", wrap=True),
        *(output.Column(title, number=True) for title in ("parts", "rows", "vanished")),
    ]
    rows = [
        [
            done["partition"] or "-",
            f"{number(done['parts_in'])} → {number(done['parts_out'])}",
            f"{number(done['rows_in'])} → {number(done['rows_out'])}",
            number(done["rows_removed"]),
        ]
        for done in data["partitions"][:SHOWN]
    ]
    output.table(columns, rows)
    if data["partition_count"] > len(rows):
        output.line(f"and {number(data['partition_count'] - len(rows))} more; --json has them")
    output.line()
