"""``firnline spark pack``: the archive of Python packages for Spark's executors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from firnline.cli import output
from firnline.cli.failures import done, when_stopped
from firnline.cli.options import JsonOption, command
from firnline.cli.progress import counting
from firnline.clock import SystemClock
from firnline.units import about_size

commands = typer.Typer()
group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(group, name="spark", help="What Spark's executors need.")

_FILE = Path("firnline-executors.tar.gz")


@command(
    group,
    "pack",
    [
        "firnline spark pack",
        "firnline spark pack /srv/envs/firnline-executors.tar.gz --without-aws",
        "firnline spark pack --with-source",
    ],
)
def pack(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Archive to write.")] = _FILE,
    without_aws: Annotated[
        bool,
        typer.Option(
            "--without-aws",
            help="Leave out boto3, which gets credentials from the usual AWS chain; without it "
            "only keys in the table's connection or the executors' environment work on S3.",
        ),
    ] = False,
    with_source: Annotated[
        bool,
        typer.Option(
            "--with-source",
            help='Add what executors need for spark.read.format("firnline") and writes by it.',
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Pack the Python packages that executors need into an archive for spark.archives.

    It holds what is installed here, for executors with the same Python version, system and
    processor: the packages that firnline imports there, and no more. Neither Python nor firnline
    is in it; firnline itself is sent with each application.
    """
    from firnline.spark.pack import pack as make

    with (
        when_stopped(f"stopped; {file} was not written", next_step="run the same command again"),
        counting("packing", str(file), SystemClock(), silent=as_json, unit="file") as tell,
    ):
        made = make(file, aws=not without_aws, source=with_source, on_progress=tell)
        done(f"{file} is written")
    data: dict[str, Any] = {
        "file": str(made.path),
        "bytes": made.bytes,
        "python": made.python,
        "platform": made.platform,
        "packages": made.packages,
        "conf": {
            "spark.archives": f"{made.path.resolve().as_uri()}#firnline",
            "spark.executorEnv.PYTHONPATH": "./firnline",
        },
    }
    output.show(data, as_json, _render)


def _render(data: dict[str, Any]) -> None:
    packages = ", ".join(f"{name} {number}" for name, number in data["packages"].items())
    output.pairs(
        [
            ("archive", f"{data['file']}, {about_size(data['bytes'])}"),
            ("for", f"Python {data['python']} on {data['platform']}"),
            ("packages", packages),
        ]
    )
    output.line()
    output.line("Put it where the driver can read it, and into spark.conf of the table:")
    for name, value in data["conf"].items():
        output.line(f"    {name}: {value}")
