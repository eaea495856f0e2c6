"""``firnline fleet``: what the planner of the fleet would start, and why not the rest."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from firnline.cli import output
from firnline.cli.options import JsonOption, SettingsOption, command, read_settings
from firnline.cli.progress import counting
from firnline.clock import SystemClock
from firnline.errors import FindingsError, UsageError
from firnline.next_steps import REASONS_ABOVE
from firnline.pages import Column
from firnline.units import about_size, counted

if TYPE_CHECKING:
    from firnline.operations.fleet.need import Need, Unreadable
    from firnline.operations.fleet.run import Member
    from firnline.settings.load import BrokenTable, TableSettings

commands = typer.Typer()


@command(
    commands,
    "fleet",
    [
        "firnline fleet",
        "firnline fleet --json",
    ],
)
def fleet(
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Plan the merges of all tables with merge.schedule: fleet, in their order.

    Most requests of a scan saved per byte rewritten comes first, and before all others what a
    mirror waits for. Also names what else is due (drops by age, clean-ups and verifications whose
    schedule is fleet), and the tables whose mirror lacks something for longer than mirror.every.
    Reads logs only and writes nothing. Whether a run is under way, or what is due has had its run
    today, is known to Airflow, and not taken into account here.
    """
    from firnline.operations.fleet.plan import plan_fleet
    from firnline.operations.fleet.run import look_at_fleet
    from firnline.settings.dags import fleet_tables

    loaded, clock = read_settings(settings), SystemClock()
    tables = fleet_tables(loaded.tables.values())
    if not tables and not loaded.unusable:
        raise UsageError(
            "no table of the settings file has an operation with `schedule: fleet`, or a mirror",
            next_step="leave the schedules of its merge, ttl, cleanup and verify out, or "
            "see `firnline plan merge TABLE` for one table",
        )
    with counting("looking at", "tables", clock, silent=as_json, unit="table") as tell:
        done = 0

        def looked(_: Need | Unreadable) -> None:
            nonlocal done
            done += 1
            tell(done, len(tables) + len(loaded.unusable))

        members = _members(tables, loaded.unusable)
        needs = look_at_fleet(members, loaded.fleet, clock.now_ms(), looked)
    plan = plan_fleet(needs, loaded.fleet, clock.now_ms())
    output.show(plan.to_json(), as_json, _render)
    if plan.unreadable:
        raise FindingsError(
            f"{counted(len(plan.unreadable), 'table')} could not be read",
            next_step=REASONS_ABOVE,
        )


def _members(tables: Iterable[TableSettings], broken: Iterable[BrokenTable]) -> list[Member]:
    from firnline.operations.fleet.run import Member
    from firnline.settings.dags import planned_by_fleet
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    access = StoreAccess.from_env()
    whole = [Member(t.name, partial(open_table, t, access), planned_by_fleet(t)) for t in tables]
    return [*whole, *(Member(each.name, each.open) for each in broken)]


def _render(data: dict[str, Any]) -> None:
    columns = [
        Column("table", wrap=True),
        Column("parts", number=True),
        Column("saved", number=True),
        Column("bytes", number=True),
        Column("saved per GiB", number=True),
        Column("now", wrap=True),
    ]
    rows = [_row(row, _now(row)) for row in data["starts"]]
    rows += [_row(row, f"no: {row['reason']}") for row in data["waiting"]]
    for row in data["unreadable"]:
        reason = f"cannot be read: {row['message']}; {row['next_step']}"
        rows.append([row["table"], "?", "?", "?", "?", reason])
    if rows:
        output.table(columns, rows)
        output.line()
    count, cost = counted(len(data["starts"]), "merge"), about_size(data["bytes"])
    idle = counted(data["idle"], "table")
    saved = output.number(data["saved"])
    output.line(
        f"{count} would be started: {saved} requests of a full scan saved for {cost} rewritten. "
        f"Nothing to do in {idle}."
    )
    for row in data["due"]:
        held = f"; not now: {row['reason']}" if row["reason"] else ""
        output.line(f"{row['operation']} of {row['table']} is due: {row['why']}{held}.")
    if mirrors := data["mirrors"]:
        output.line(f"{counted(len(mirrors), 'mirror')} would be published: {', '.join(mirrors)}.")
    if data["budget_bytes"] is not None:
        spent, budget = about_size(data["spent_bytes"]), about_size(data["budget_bytes"])
        output.line(f"{spent} of {budget} were spent in the last 24 hours.")


def _row(row: dict[str, Any], now: str) -> list[str]:
    number = output.number
    parts = f"{number(row['parts_in'])} → {number(row['parts_out'])}"
    score = "-" if row["score"] is None else number(round(row["score"]))
    return [row["table"], parts, number(row["saved"]), about_size(row["bytes"]), score, now]


def _now(row: dict[str, Any]) -> str:
    most, first = row["max_bytes"], ", its mirror waits for it" if row["ends_wait"] else ""
    return f"yes{first}" if most is None else f"yes{first}, at most {about_size(most)} (budget)"
