"""``firnline rewrite``: rewrite partitions by a filter or a query."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from firnline.cli import output
from firnline.cli.confirm import YesOption
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.operate import operate, show_plan, works
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    open_target,
    require_table,
)
from firnline.cli.progress import reading
from firnline.errors import UsageError
from firnline.operations.operation import Work
from firnline.operations.options import CommitOptions, DiscardOptions, RewriteOptions
from firnline.operations.registry import COMMIT, DISCARD, REWRITE

commands = typer.Typer()


@command(
    commands,
    "rewrite",
    [
        'firnline rewrite flights --where "dep_delay is not null" --dry-run',
        "firnline rewrite flights --where \"carrier != 'HA'\" --partitions '*-01' --yes",
        "firnline rewrite t --sql 'from _rows limit 9' --from 2013-02-01 --until 2013-03-01",
        "firnline rewrite t --where 'a > 0' --prepare --assert 'select count(*) > 9 from after'",
        "firnline rewrite t --prepared",
        "firnline rewrite t --commit 019c5f0e-6b6f-7d52-8d0c-3f6d1f0a2b11",
    ],
)
def rewrite(  # noqa: PLR0913, PLR0917 - one per option
    table: TableArgument,
    options: RewriteOptions,
    commit: Annotated[
        str | None,
        typer.Option("--commit", metavar="ID", help="Commit exactly what was prepared."),
    ] = None,
    discard: Annotated[
        str | None,
        typer.Option("--discard", metavar="ID", help="Delete what was prepared."),
    ] = None,
    prepared: Annotated[
        bool, typer.Option("--prepared", help="List what is prepared and waits for a decision.")
    ] = False,
    yes: YesOption = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Rewrite partitions by a filter or a query.

    All or nothing for each partition, one transaction each; partitions that are done stay done
    when a later one fails. With --prepare nothing is committed: the new parts are written and
    compared with the old ones, and --commit commits exactly them, in one transaction. Under Airflow
    the DAG rewrite_partitions__TABLE does the same, also as a backfill over dates.
    """
    opened = open_target(table, settings)
    decided = [flag for flag in (commit, discard) if flag is not None]
    _refuse_mixed(options, [*decided, *["prepared"] * prepared])
    if prepared:
        require_table(opened)
        from firnline.operations.prepared.pages import waiting_page
        from firnline.operations.prepared.waiting import waiting

        output.show(waiting(opened).to_json(), as_json, waiting_page)
    elif commit is not None:
        committing, progress = CommitOptions(id=commit), works("committing to")
        if options.dry_run:
            show_plan(COMMIT.load(), opened, committing, as_json=as_json)
            return
        operate(
            COMMIT.load(), Work(opened), committing, as_json=as_json, yes=yes, progress=progress
        )
    elif discard is not None:
        discarding, progress = DiscardOptions(id=discard), works("discarding of")
        if options.dry_run:
            show_plan(DISCARD.load(), opened, discarding, as_json=as_json)
            return
        operate(DISCARD.load(), Work(opened), discarding, as_json=as_json, progress=progress)
    else:
        with engine_for("rewrite", opened, engine, master, scratch) as factory:
            operate(
                REWRITE.load(),
                Work(opened, engine=factory),
                options,
                as_json=as_json,
                yes=yes,
                progress=partial(reading, "preparing" if options.prepare else "rewriting"),
            )


def _refuse_mixed(options: RewriteOptions, decided: list[str]) -> None:
    """Raise UsageError for options of which one would be ignored."""
    if not decided:
        return
    given = options != RewriteOptions(dry_run=options.dry_run)
    if given or len(decided) > 1:
        raise UsageError(
            "--commit, --discard and --prepared are about what is prepared already",
            next_step="give one of them, without options of a new rewrite",
        )
