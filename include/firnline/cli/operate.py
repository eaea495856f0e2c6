"""Carry out an operation for a command: plan or run, ask, show progress, print the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from firnline.cli import output
from firnline.cli.confirm import agreed, refuse_silence, typed_name
from firnline.cli.failures import only_here, when_stopped, with_report
from firnline.cli.options import identity, looking
from firnline.cli.progress import working
from firnline.clock import Clock
from firnline.errors import FirnlineError
from firnline.operations.operation import (
    Consent,
    Figures,
    Operation,
    OptionsT,
    Work,
    decided,
    untold,
)

if TYPE_CHECKING:
    from firnline.table import Table

Shown = Callable[..., AbstractContextManager[Callable[..., None]]]
"""Of ``cli.progress``: takes table, clock and ``silent``."""
AnyOperation = Operation[Any, Any, Any]


class _NothingLeftError(Exception):
    """The plan that a person was to agree to has nothing to do, and was shown."""


def operate(
    operation: Operation[OptionsT, Any, Any],
    work: Work,
    options: OptionsT,
    *,
    as_json: bool,
    progress: Shown,
    yes: bool = False,
    publishes: bool = True,
) -> None:
    """Print the plan of a dry run; else run it, after a question where it asks, and report.

    Args:
        operation: what to do.
        work: on which table, and with which engine; who does it, whether somebody agrees and what
            is told are added.
        options: its options.
        as_json: print JSON; a failure is then raised as it is.
        progress: shows what the run tells, or that it works.
        yes: whoever calls has agreed already.
        publishes: the mirrors of what was written to are published at the end of the command.

    Raises:
        UsageError: options that are refused; nobody can be asked.
        FirnlineError: the run failed; the report of what it has done was printed.
        typer.Exit: the answer was not yes.
    """
    table = work.table
    if getattr(options, "dry_run", False) and operation.preview is not None:
        show_plan(operation, table, options, as_json=as_json)
        return
    name = table.settings.name
    consent = decided if yes else _at_terminal(as_json=as_json)
    try:
        agreed_to = _agreed(operation, replace(work, consent=consent), options)
    except _NothingLeftError:
        return
    message, next_step = operation.stopped(name, options)
    try:
        with (
            when_stopped(f"stopped; {message}", next_step=next_step),
            progress(name, table.clock, silent=as_json) as tell,
        ):
            commits = publishes and not operation.about.only_looks
            run = identity(work.target or table, commits=commits)
            work = replace(work, identity=run, tell=tell, consent=decided)
            report = operation.run(work, agreed_to)
            _keep(operation, report)
    except FirnlineError as error:
        partly: Figures | None = getattr(error, "report", None)
        if partly is None:
            raise
        _keep(operation, partly)
        page = operation.failure_page or operation.report_page
        with with_report(error):
            output.show(partly.to_json(), as_json, page)
        if as_json or operation.in_short is None:
            raise
        raise operation.in_short(name, partly) from error
    output.show(report.to_json(), as_json, operation.report_page)
    try:
        operation.judge(report)
    except FirnlineError as error:
        if as_json or operation.in_short is None:
            raise
        raise operation.in_short(name, report) from error


def _keep(operation: AnyOperation, report: object) -> None:
    """Let a failure of the output show what the output alone would have."""
    note = operation.stored_nowhere and operation.stored_nowhere(report)
    if note:
        only_here(note)


def show_plan(
    operation: Operation[OptionsT, Any, Any],
    table: Table,
    options: OptionsT,
    *,
    as_json: bool,
) -> None:
    """Print the plan; nothing is changed. Raises FirnlineError for options that are refused."""
    with looking(table, silent=as_json):
        plan = operation.plan(table, options)
    _show(operation, table, plan, as_json=as_json)


def _show(operation: AnyOperation, table: Table, plan: Figures, *, as_json: bool) -> None:
    assert operation.plan_page is not None
    output.show(operation.plan_data(table, plan.to_json()), as_json, operation.plan_page)


def _agreed(operation: AnyOperation, work: Work, options: OptionsT) -> OptionsT:
    """Return the options of a run that was agreed to, before its progress is shown."""
    if work.consent is None or not operation.asks(work, options):
        return options
    agreed_to: OptionsT = work.consent(operation, work, options)
    return agreed_to


def _at_terminal(*, as_json: bool) -> Consent:
    """Return the consent of the person at the terminal, who sees the plan first."""

    def ask(operation: AnyOperation, work: Work, options: Any) -> Any:  # noqa: ANN401 - of each operation
        table = work.table
        with working("looking at", table.settings.name, table.clock, silent=as_json):
            plan = operation.plan(table, options)
        nothing = getattr(plan, "nothing_to_do", False)
        if not nothing:
            # After the plan, which says what is wrong with the call.
            name = f" and --name {table.settings.name}" if operation.named else ""
            refuse_silence(operation.question(work), as_json, f"--yes{name}")
        _show(operation, table, plan, as_json=as_json and nothing)
        if nothing:
            raise _NothingLeftError
        agreed_to = _answer(operation, table.settings.name, options)
        if agreed_to is None:
            output.line("Nothing was changed.")
            raise typer.Exit(1)
        return operation.confirmed(agreed_to, plan) if operation.confirmed else agreed_to

    return ask


def _answer(operation: AnyOperation, name: str, options: Any) -> Any:  # noqa: ANN401 - of each operation
    """Ask for a yes or the table's name; return the options with the answer, None for a no."""
    if operation.named is None:
        return options if agreed("Do it?") else None
    typed = typed_name(name)
    return None if typed is None else operation.named(options, typed)


def works(doing: str) -> Shown:
    """Return what shows that it works, such as ``dropping from``, for one that tells nothing."""
    return partial(_telling, doing)


@contextmanager
def _telling(
    doing: str, name: str, clock: Clock, *, silent: bool
) -> Iterator[Callable[[Any], None]]:
    with working(doing, name, clock, silent=silent):
        yield untold
