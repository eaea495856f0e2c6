"""``firnline erasure``: requests of people to be erased, from all tables at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firnline.cli import output
from firnline.cli.confirm import DryRunOption, YesOption, agreed, refuse_silence
from firnline.cli.engine import EngineKind, EngineOption, MasterOption, ScratchOption, engine_for
from firnline.cli.failures import only_here, settings_read, when_stopped, with_report
from firnline.cli.files import local_path
from firnline.cli.options import (
    JsonOption,
    ListsByDefault,
    SettingsOption,
    command,
    identity,
)
from firnline.cli.progress import counting, reading
from firnline.clock import SystemClock
from firnline.operations.operation import Work, decided
from firnline.operations.registry import ERASE

if TYPE_CHECKING:
    from firnline.operations.erase.run import EraseReport
    from firnline.operations.erasure.erasures import Erasures
    from firnline.operations.erasure.look import TableLook
    from firnline.operations.erasure.plan import ErasurePlan
    from firnline.operations.erasure.run import Erases
    from firnline.operations.options import EraseOptions
    from firnline.table import Table

commands = typer.Typer()
group = typer.Typer(cls=ListsByDefault, no_args_is_help=False, rich_markup_mode=None)
commands.add_typer(
    group, name="erasure", help="Requests of people to be erased, from all tables at once."
)
RequestArgument = Annotated[
    str,
    typer.Argument(metavar="REQUEST", help="Id of a request, as `firnline erasure show` lists it."),
]


@command(group, "show", ["firnline erasure", "firnline erasure show --json"])
def show(as_json: JsonOption = False, settings: SettingsOption = None) -> None:
    """Requests that are open, when they are due, and from which tables they are erased.

    Reads logs, certificates and keys, and writes nothing. `firnline erasure run` carries them out.
    """
    from firnline.operations.erasure.pages import plan_page

    output.show(_looked(_erasures(settings), as_json=as_json).to_json(), as_json, plan_page)


@command(
    group,
    "ask",
    [
        "firnline erasure ask persons.csv --reference TICKET-4711",
        "firnline erasure ask persons.parquet --received 2026-11-02 --without web_logs",
    ],
)
def ask(
    keys: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="CSV or Parquet with the columns that tables name in `person`, a row for each "
            "person. It is copied into the folder of requests until the request is closed.",
        ),
    ],
    received: Annotated[
        str | None,
        typer.Option("--received", metavar="TIME", help="When it was received, in UTC; now."),
    ] = None,
    due: Annotated[
        str | None,
        typer.Option("--due", metavar="TIME", help="When it is due; after `erasure.within`."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="TABLE", help="Leave a table out; may be repeated."),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            metavar="TEXT",
            help="Of the request in another system. Everyone sees it, so it names nobody.",
        ),
    ] = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Take a request: its clock starts, and the next run erases it from all tables."""
    from firnline.operations.erasure.pages import taken_page

    report = _erasures(settings).ask(
        local_path(keys, "FILE"),
        received=received,
        due=due,
        without=without or (),
        reference=reference or "",
    )
    only_here(f"secret of request {report.request.id}, which is stored nowhere: {report.secret}")
    output.show(report.to_json(), as_json, taken_page)


@command(
    group,
    "run",
    ["firnline erasure run --dry-run", "firnline erasure run --yes"],
)
def run(
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    engine: EngineOption = EngineKind.LOCAL,
    master: MasterOption = None,
    scratch: ScratchOption = None,
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Erase all requests that wait: each table is rewritten once, for all of them together.

    Before that it completes the certificates whose grace is over, and closes the requests that are
    certified in every table: their keys are deleted. One table that fails holds up no other.
    """
    from firnline.operations.erasure.pages import plan_page, report_page
    from firnline.operations.erasure.run import ErasureFailedError

    erases = partial(_erase, engine=engine, master=master, scratch=scratch, silent=as_json)
    erasures = _erasures(settings, erases)
    if dry_run:
        output.show(_looked(erasures, as_json=as_json).to_json(), as_json, plan_page)
        return
    if not yes:
        _ask_first(erasures, as_json=as_json)
    with when_stopped(
        "stopped; each table is erased whole or not at all", next_step="run the same command again"
    ):
        try:
            report = erasures.run()
        except ErasureFailedError as error:
            with with_report(error):
                output.show(error.report.to_json(), as_json, report_page)
            raise
    output.show(report.to_json(), as_json, report_page)


@command(
    group,
    "withdraw",
    ["firnline erasure withdraw 019aa4d8-7b6e-7c3a-9f00-5d1c2b3a4f5e --why 'asked twice'"],
)
def withdraw(
    request: RequestArgument,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, which is kept.")],
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Close a request without carrying it out, and delete its keys. What was erased stays so."""
    import msgspec

    closed = _erasures(settings).withdraw(request, why)
    sentence = f"Request {request} is withdrawn; its keys are deleted."
    output.show(msgspec.to_builtins(closed), as_json, lambda _: output.line(sentence))


@command(
    group,
    "bundle",
    ["firnline erasure bundle 019aa4d8-7b6e-7c3a-9f00-5d1c2b3a4f5e for-the-auditor"],
)
def bundle(
    request: RequestArgument,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.")],
    as_json: JsonOption = False,
    settings: SettingsOption = None,
) -> None:
    """Write what proves a request: certificates of all tables, and what is outside of them.

    With the request, its end, and for each table a program of one file that checks a copy of it
    without firnline.
    """
    written = _erasures(settings).bundle(request, local_path(folder, "FOLDER"))
    output.show({"request": request, "files": list(map(str, written))}, as_json, _written)


def _written(data: dict[str, list[str]]) -> None:
    for path in data["files"]:
        output.plain(path)


def _erasures(path: Path | None, erases: Erases | None = None) -> Erasures:
    """Open the requests; without ``erases`` for what erases nothing."""
    from firnline.operations.erasure.erasures import open_erasures

    opened = open_erasures(path, None, "cli", erases or _nothing)
    settings_read(opened.people.settings.path)
    return opened


def _nothing(_table: Table, _options: EraseOptions) -> EraseReport:
    raise AssertionError("a command that erases nothing erases")


def _looked(erasures: Erasures, *, as_json: bool) -> ErasurePlan:
    clock, done = SystemClock(), 0
    with counting("looking at", "tables", clock, silent=as_json, unit="table") as tell:

        def looked(_: TableLook) -> None:
            nonlocal done
            done += 1
            tell(done, len(erasures.people.names))

        return erasures.look(looked)


def _ask_first(erasures: Erasures, *, as_json: bool) -> None:
    """Show the plan, and ask if it erases anything. Raises typer.Exit: the answer was not yes."""
    from firnline.operations.erasure.pages import plan_page

    plan = _looked(erasures, as_json=as_json)
    if plan.nothing_to_do:
        return
    refuse_silence("rows of all requests may go", as_json)
    output.show(plan.to_json(), as_json, plan_page)
    if not agreed("Do it?"):
        output.line("Nothing was changed.")
        raise typer.Exit(1)


def _erase(
    table: Table,
    options: EraseOptions,
    *,
    engine: EngineKind,
    master: str | None,
    scratch: Path | None,
    silent: bool,
) -> EraseReport:
    name = table.settings.name
    with (
        engine_for("erase", table, engine, master, scratch) as factory,
        reading("erasing from", name, table.clock, silent=silent) as tell,
    ):
        work = Work(table, identity(table), engine=factory, tell=tell, consent=decided)
        return ERASE.load().run(work, options)
