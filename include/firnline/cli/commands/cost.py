"""``firnline cost``: what the maintenance of a table costs a month, and what it saves readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    found_table,
    open_found,
    read_state,
)
from firnline.errors import UsageError
from firnline.operations.inspect.prices import GET, PUT, Prices
from firnline.pages import Column
from firnline.units import about_duration, about_size, counted

if TYPE_CHECKING:
    from firnline.operations.inspect.cost import Cost
    from firnline.settings.fleet import FleetSettings
    from firnline.state.snapshot import Snapshot
    from firnline.table import Table

commands = typer.Typer()


@command(
    commands,
    "cost",
    [
        "firnline cost flights",
        "firnline cost events --appends-per-day 144",
        "firnline cost events --put-price 0.0054 --get-price 0.00043 --json",
    ],
)
def cost(
    table: TableArgument,
    put_price: Annotated[
        float,
        typer.Option(
            "--put-price",
            metavar="USD",
            min=0,
            max=1_000,
            help="Price of 1,000 PUT or LIST requests.",
        ),
    ] = PUT,
    get_price: Annotated[
        float,
        typer.Option(
            "--get-price",
            metavar="USD",
            min=0,
            max=1_000,
            help="Price of 1,000 GET requests.",
        ),
    ] = GET,
    appends_per_day: Annotated[
        float | None,
        typer.Option(
            "--appends-per-day",
            metavar="N",
            min=0.01,
            max=10_000_000,
            help="As if the rows came in so many appends a day, not in those of the log.",
        ),
    ] = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Estimate what the maintenance of a table costs in 30 days: requests and money.

    From the appends that the log still has whole, the merge policy and the schedules. Each line
    says what it is from. Reads the log and writes nothing. The prices are those of S3 Standard in
    us-east-1; look up those of your store.
    """
    found_settings = found_table(table, settings)
    opened = open_found(found_settings.table)
    state = read_state(opened, silent=as_json)
    prices = Prices(put_price, get_price)
    estimate = _estimate(opened, state, found_settings.fleet, prices, appends_per_day)
    data = {
        "table": opened.settings.name,
        "root": opened.settings.root,
        "appends_per_day": appends_per_day,
        **estimate.to_json(),
        "requests_sent": opened.store.counters.as_dict(),
    }
    output.show(data, as_json, _render)


def _estimate(
    table: Table,
    state: Snapshot,
    fleet: FleetSettings,
    prices: Prices,
    appends_per_day: float | None,
) -> Cost:
    from firnline.operations.inspect.arrivals import arrivals_of
    from firnline.operations.inspect.cost import estimate, state_of
    from firnline.operations.merge.plan import plan_merge
    from firnline.properties.in_force import current, in_force

    now = table.clock.now_ms()
    own = in_force(table.settings, current(state.properties))
    seen = arrivals_of(state, own.cleanup.grace, now)
    if appends_per_day is not None:
        if not seen.appends:
            raise UsageError(
                f"the log of {own.name} has no append of late whose rows could come otherwise",
                next_step="leave --appends-per-day out",
            )
        seen = seen.at(appends_per_day)
    plan = plan_merge(state, own, now)
    saved = plan.parts_in + plan.parts_hidden - plan.parts_out
    return estimate(seen, state_of(state, saved), own, fleet, prices)


def _render(data: dict[str, Any]) -> None:
    output.line(_arrivals(data["table"], data["arrivals"], data["appends_per_day"]))
    output.line()
    columns = [
        Column("in 30 days"),
        Column("runs a day", number=True, dispensable=4),
        Column("LIST", number=True, dispensable=3),
        Column("GET", number=True, dispensable=2),
        Column("PUT", number=True, dispensable=1),
        Column("DELETE", number=True, dispensable=6),
        Column("USD", number=True),
        Column("from", wrap=True, prose=True, dispensable=5),
    ]
    rows = [
        [
            each["operation"],
            _rate(each["runs_a_day"]),
            *_counts(each["requests"]),
            _usd(each["usd"]),
            each["source"],
        ]
        for each in data["operations"]
    ]
    footer = ["all", "", *_counts(data["requests"]), _usd(data["usd"]), ""]
    output.table(columns, rows, footer)
    output.line()
    for sentence in _sentences(data):
        output.line(sentence)


def _arrivals(table: str, seen: dict[str, Any], instead: float | None) -> str:
    size, last = about_size(seen["bytes"]), about_duration(seen["window_ms"])
    if instead is not None:
        rate = f"{instead:,.10g} appends a day"
        return f"{table}: as if the rows of the last {last} ({size}) came in {rate}"
    appends, parts = counted(seen["appends"], "append"), counted(seen["parts"], "part")
    partitions = counted(seen["partitions"], "partition")
    return f"{table}: {appends} in the last {last} ({parts}, {size}, in {partitions}), by the log"


def _sentences(data: dict[str, Any]) -> list[str]:
    now, merged, prices = data["read_now"], data["read_after_merge"], data["prices"]
    before, after = (output.number(sum(one["requests"].values())) for one in (now, merged))
    gain = f", and {after} after a merge" if now != merged else "; a merge would not change that"
    money = _usd(now["usd_of_1000"]) + (
        f" and {_usd(merged['usd_of_1000'])} USD" if now != merged else " USD"
    )
    put, get = prices["put_of_1000"], prices["get_of_1000"]
    return [
        f"A read of all rows sends at least {before} requests now{gain}: {money} for 1,000 reads.",
        f"Prices: {put:g} USD for 1,000 PUT or LIST, {get:g} for 1,000 GET, none for DELETE.",
        f"Not counted: {'; '.join(data['left_out'])}.",
    ]


def _counts(requests: dict[str, int]) -> list[str]:
    return [output.number(requests[kind]) for kind in ("list", "get", "put", "delete")]


def _rate(a_day: float) -> str:
    return f"{a_day:,.0f}" if a_day >= 10 or a_day == int(a_day) else f"{a_day:.2g}"


def _usd(money: float) -> str:
    return "below 0.01" if 0 < money < 0.01 else f"{money:,.2f}"
