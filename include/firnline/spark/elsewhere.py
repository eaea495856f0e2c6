"""A job on a platform of its own: what it is to do, and how it ended, are objects beside its code.

    run.py --firnline-request s3://bucket/firnline/0.1.0-0123456789ab/jobs/NAME.request.json

Its identity is that of the platform: the request holds no credentials. Other arguments, which some
platforms add, are left alone. (``firnline.launch.desk``)
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from firnline.errors import ObjectNotFoundError, StoppedError, StoreError, UsageError
from firnline.interrupts import Interrupts
from firnline.launch.desk import Desk, Failure, Outcome, Request
from firnline.launch.launcher import REQUEST_ARGUMENT
from firnline.operations.operation import Figures
from firnline.operations.registry import OPERATIONS
from firnline.settings.model import TableSettings
from firnline.spark.job import Asked, Job, Place, stopped, told_of
from firnline.spark.supervision import Watch, watch
from firnline.store.access import StoreAccess

if TYPE_CHECKING:
    from firnline.operations.operation import About

LOOK_S = 15.0
"""Seconds between two looks for the request to stop: a HEAD each."""


def main(arguments: Sequence[str]) -> int:
    """Run the job that the arguments name, and tell how it ended; return the exit code.

    A job whose request is gone was given up, and does nothing.
    """
    try:
        desk, name = _asked_at(arguments)
        request = desk.request(name)
    except ObjectNotFoundError as error:
        sys.stderr.write(f"nobody waits for this job any more: {error}\n")
        return 1
    interrupts = Interrupts()
    if request.looks_for_cancel:
        watch(Watch(_asked_to_stop(desk, name), interrupts, look_s=LOOK_S))
    reports: list[dict[str, Any]] = []
    outcome, code = _outcome(request, interrupts, reports.append)
    interrupts.over()
    desk.tell(name, Outcome(report=reports[-1] if reports else None, error=outcome))
    if request.looks_for_cancel and desk.stopped(name):
        desk.clear(name)  # its task has ended, and nobody will hear it
    return code


def _asked_at(arguments: Sequence[str]) -> tuple[Desk, str]:
    """Return the desk and the name of the job. Raises UsageError."""
    given = dict(pairwise(arguments))
    url = given.get(REQUEST_ARGUMENT, "")
    package, _, file = url.rpartition("/jobs/")
    if not package or not file.endswith(".request.json"):
        raise UsageError(
            f"the job has no request: {REQUEST_ARGUMENT} {url}",
            next_step="start it by a run of Airflow, or run the file of the operation instead",
        )
    desk = Desk.open(package, StoreAccess.from_env())
    return desk, desk.name_at(url)


def _asked_to_stop(desk: Desk, name: str) -> Callable[[], StoppedError | None]:
    """Return what looks whether the job is to stop. No answer is no reason to."""

    def look() -> StoppedError | None:
        with suppress(StoreError):
            return stopped() if desk.stopped(name) else None
        return None

    return look


def _outcome(
    request: Request, interrupts: Interrupts, tell: Callable[[dict[str, Any]], None]
) -> tuple[Failure | None, int]:
    """Do the work; return why it failed, or None, and the exit code."""

    def report(figures: Figures) -> None:
        tell(figures.to_json())

    try:
        _job(request).perform(_asked(request), interrupts, report)
    except KeyboardInterrupt:
        error: Exception = interrupts.over() or stopped()
    except Exception as raised:  # noqa: BLE001 -- the last place where it becomes one sentence
        traceback.print_exc()  # the platform keeps the driver's log
        error = interrupts.over() or raised
    else:
        return None, 0
    told = told_of(error)
    failure = Failure(message=told.message, next_step=told.next_step, retryable=told.retryable)
    return failure, told.exit_code


def _job(request: Request) -> Job[Any]:
    about: About[Any, Any, Any] | None
    about = next((each for each in OPERATIONS if each.name == request.operation), None)
    if about is None:
        raise UsageError(
            f"this package knows no operation {request.operation!r}",
            next_step="publish the version of firnline that Airflow has, and name it in "
            "spark.package",
        )
    return Job(about)


def _asked(request: Request) -> Asked:
    settings = TableSettings.model_validate_json(bytes(request.settings))
    access = StoreAccess.from_env()
    given = {name: value for name, value in request.access.items() if value is not None}
    run = msgspec.structs.replace(request.run, host=os.uname().nodename)
    options = msgspec.json.decode(request.options)
    return Asked(settings, replace(access, **given), options, run, Place(given=True))


ENTRY = """\
import sys

from firnline.spark.elsewhere import main

code = main(sys.argv[1:])
if code:  # some platforms take any SystemExit for a failure
    sys.exit(code)
"""
"""The entry point of every job, as it is published."""
