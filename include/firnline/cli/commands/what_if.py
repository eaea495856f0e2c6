"""``firnline what-if``: what maintenance and reading would have cost with other settings."""

from __future__ import annotations

from typing import Annotated

import typer

from firnline.cli import output
from firnline.cli.options import (
    JsonOption,
    SettingsOption,
    TableArgument,
    command,
    found_table,
    open_found,
)
from firnline.cli.progress import counting
from firnline.operations.inspect.prices import GET, PUT, Prices
from firnline.operations.options import WhatIfOptions

commands = typer.Typer()


@command(
    commands,
    "what-if",
    [
        "firnline what-if flights --set merge.target_size=1GiB --set merge.min_inputs=8",
        "firnline what-if flights --set 'merge.schedule=*/15 * * * *' --scans-a-day 500",
        "firnline what-if flights --suggest --most-requests 30",
    ],
)
def what_if(
    table: TableArgument,
    options: WhatIfOptions,
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
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Play the arrivals that a table has recorded, with other settings.

    Side by side: what was, what a play makes of it with the settings in force, and with those of
    --set. Reads the log and the history, and writes nothing.
    """
    from firnline.operations.what_if.pages import page_of
    from firnline.operations.what_if.run import what_if as ask

    found = found_table(table, settings)
    opened = open_found(found.table)
    name, clock = opened.settings.name, opened.clock
    with counting("playing", name, clock, silent=as_json, unit="part") as tell:
        answer = ask(opened, found.fleet, options, Prices(put_price, get_price), tell)
    output.show(answer.to_json(), as_json, page_of)
