"""``firnline demo``: a table of real flights in a folder or on S3, before and after its merge."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.files import local_path
from firnline.cli.options import JsonOption, command
from firnline.cli.progress import counting
from firnline.clock import SystemClock
from firnline.pages import Column

if TYPE_CHECKING:
    import pyarrow as pa

commands = typer.Typer()


@command(
    commands,
    "demo",
    [
        "firnline demo",
        "firnline demo --folder /tmp/flights --months 3",
        "firnline demo --s3 s3://lake/demo",
    ],
)
def demo(
    folder: Annotated[
        Path,
        typer.Option(
            "--folder",
            metavar="FOLDER",
            help="New folder for settings and table; with --s3 for the settings alone.",
        ),
    ] = Path("firnline-demo"),
    months: Annotated[
        int,
        typer.Option("--months", min=1, max=12, help="Months of 2013: 27,000 flights each."),
    ] = 1,
    s3: Annotated[
        str | None,
        typer.Option(
            "--s3",
            metavar="URL",
            help="Make the table below s3://bucket/prefix instead, in the S3 that the environment "
            "names (AWS_ENDPOINT_URL, keys); `make s3` in a clone starts one.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a table of real flights, hour by hour, and merge it; without Airflow and Spark.

    The table stays, to look around in. It needs the extra `demo`.
    """
    from firnline.cli.sample import make

    folder = local_path(folder, "--folder")
    hours = _hours(months)
    with counting("filling", "flights", SystemClock(), silent=as_json, unit="append") as tell:
        sample = make(folder, hours, lambda done: tell(done, len(hours)), s3)
    data = {
        "settings": str(sample.settings),
        "rows": sample.rows,
        "appends": sample.appends,
        "seconds": sample.seconds,
        "before": asdict(sample.before),
        "after": asdict(sample.after),
        "merge": sample.merged.to_json(),
    }
    output.show(data, as_json, lambda data: _render(data, folder, max(sample.merged.transactions)))


def _hours(months: int) -> list[pa.Table]:
    import pyarrow.compute as pc

    from firnline.flights import cut_hours, flights_file, read_flights

    flights = read_flights(flights_file())
    return cut_hours(flights.filter(pc.less_equal(flights["month"], months)))


def _render(data: dict[str, Any], folder: Path, merged: int) -> None:
    from firnline.cli.sample import NAME, QUESTION, next_steps

    number, before, after = output.number, data["before"], data["after"]
    each = round(1000 * data["seconds"] / data["appends"])
    output.line(
        f"{number(data['rows'])} flights in {number(data['appends'])} appends, an hour each: "
        f"{each} ms an append."
    )
    output.line()
    columns = [
        Column(""),
        *(Column(t, number=True) for t in ("before the merge", "after")),
    ]
    rows = [
        ["parts of the table", number(before["parts"]), number(after["parts"])],
        ["requests of a query", number(before["requests"]), number(after["requests"])],
        ["time of it", f"{1000 * before['seconds']:.0f} ms", f"{1000 * after['seconds']:.0f} ms"],
        ["rows that it finds", number(before["rows"]), number(after["rows"])],
    ]
    output.table(columns, rows)
    output.line()
    output.line(f"The query: {QUESTION}")
    output.line(f"The merge took {data['merge']['seconds']:.1f} s. The table stays; look around:")
    for step in next_steps(folder, NAME, merged):
        output.plain(f"  {step}")
