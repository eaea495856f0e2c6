"""``firnline spark``: the packages for executors, and for jobs on other platforms."""

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
commands.add_typer(group, name="spark", help="Packages for Spark: of executors, and of jobs.")

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


@command(
    group,
    "publish",
    [
        "firnline spark publish s3://bucket/firnline",
        "firnline spark publish s3://bucket/firnline --python /opt/python3.11",
        "firnline spark publish gs://bucket/firnline --without-aws --dry-run",
    ],
)
def publish(
    url: Annotated[str, typer.Argument(metavar="URL", help="Folder of all packages.")],
    python: Annotated[
        Path | None,
        typer.Option(
            "--python",
            metavar="FOLDER",
            help="Root of a relocatable Python to send along, for platforms that have an older "
            "one: `uv python install` makes one.",
        ),
    ] = None,
    without_aws: Annotated[
        bool, typer.Option("--without-aws", help="Leave out boto3 of the executors.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make the package and write nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Publish firnline for jobs on EMR, Glue, Dataproc and Databricks.

    Entry point, wheel and environment go into a folder that is named after version and content;
    `spark.package` of the settings names it, and a run uses exactly that. Of a package that is
    there, files that are missing or damaged are written again.
    """
    from firnline.spark.publish import publish as send
    from firnline.spark.publish import to_json
    from firnline.store.access import StoreAccess

    stopped = f"stopped; {url} may hold part of the package, which no run uses"
    with (
        when_stopped(stopped, next_step="run the same command again"),
        counting("packing", url, SystemClock(), silent=as_json, unit="file") as tell,
    ):
        made = send(
            url,
            StoreAccess.from_env(),
            aws=not without_aws,
            python=python,
            dry_run=dry_run,
            on_progress=tell,
        )
        done(f"{made.url} is published" if made.written else "nothing was written")
    output.show({**to_json(made), "dry_run": dry_run}, as_json, _render_published)


def _render_published(data: dict[str, Any]) -> None:
    from firnline.settings.draft import scalar

    inside = f", with Python {data['python']}" if data["carries_python"] else ""
    there = "written" if data["written"] else "it was there"
    if data["repaired"]:
        there = f"repaired: {', '.join(data['repaired'])}"
    output.pairs(
        [
            ("package", f"{data['package']}, {about_size(data['bytes'])}{inside}"),
            ("for", f"Python {data['python']} on {data['platform']}"),
            ("state", "dry run, nothing written" if data["dry_run"] else there),
        ]
    )
    output.line()
    output.line("In the settings of the tables:")
    output.line("    spark:")
    output.line(f"      package: {scalar(data['package'])}")


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
