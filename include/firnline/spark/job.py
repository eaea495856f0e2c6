"""The frame of a Spark job: arguments, credentials, the session, the report, the one error line.

    spark-submit spark_jobs/rewrite.py flights --run-id=… --options='{"where": "carrier = 1"}'

The operation's options are JSON, in ``--options`` or, if they must not appear in an argument list,
in the environment variable ``FIRNLINE_JOB_OPTIONS``. Credentials come from the environment of the
driver, never from arguments. Each half minute one line on stderr says how far it is
(``firnline.spark.heartbeat``). The report is the last line on stdout, as JSON. A failure is one
line of JSON on stderr, ``{"error": {"message", "next_step", "retryable", …}}``; exit code 1 failed,
2 wrong usage, 129 stopped because the Airflow task that started it is gone
(``firnline.spark.supervision``), 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn

import msgspec

from firnline.errors import FirnlineError, StoppedError, UsageError, first_line
from firnline.interrupts import Interrupts
from firnline.operations.fields import OptionField, checked, option_fields
from firnline.operations.job_variables import OPTIONS_VARIABLE
from firnline.operations.local import local_engine
from firnline.operations.operation import About, Figures, OptionsT, Work, decided
from firnline.spark.heartbeat import Heartbeat
from firnline.spark.supervision import watch_supervisors
from firnline.store.access import ACCESS_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firnline.kernel.engine import Engine
    from firnline.log.txn_file import RunIdentity
    from firnline.settings.load import TableSettings
    from firnline.store.access import StoreAccess
    from firnline.table import Table


@dataclass(frozen=True, slots=True)
class Place:
    """Where the kernels of a job run."""

    master: str | None = None
    """Spark master without spark-submit."""
    remote: str | None = None
    """Spark Connect server."""
    scratch: str | None = None
    """Local folder on the executors."""
    in_process: bool = False
    """True: in this process, without Spark."""
    given: bool = False
    """True: in the session of the platform that started this driver."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job is to do."""

    settings: TableSettings
    access: StoreAccess
    fields: Mapping[str, Any]
    """The operation's options by name."""
    run: RunIdentity
    place: Place = Place()


@dataclass(frozen=True, slots=True)
class Job(Generic[OptionsT]):
    """A program in ``spark_jobs/``."""

    about: About[OptionsT, Any, Any]

    def main(self, arguments: Sequence[str]) -> int:
        """Run the job; return the exit code."""
        debug, interrupts = "--debug" in arguments, Interrupts()
        try:
            given = self._parser().parse_args(arguments)
            watch_supervisors(os.environ, interrupts)
            self._run(given, interrupts)
        except KeyboardInterrupt:
            return _report_error(interrupts.over() or stopped(), debug=debug)
        except Exception as error:  # noqa: BLE001 -- the last place where it becomes one sentence
            # An interrupt in the middle of a call to Spark or DuckDB comes back as an error of it.
            return _report_error(interrupts.over() or error, debug=debug)
        interrupts.over()
        return 0

    def _parser(self) -> argparse.ArgumentParser:
        # A beginning of an option may be that of another one in the next version.
        parser = _Parser(self.about.name, description=f"{self.about.title}.", allow_abbrev=False)
        parser.register("action", None, _Once)
        parser.add_argument("table", help="name in the settings file, or a root URL")
        parser.add_argument("--settings", help="settings file ($FIRNLINE_TABLES)")
        parser.add_argument("--options", metavar="JSON", help=f"what to do (${OPTIONS_VARIABLE})")
        for field in self._fields():
            _add_argument(parser, field)
        if "dry_run" in self.about.options.__struct_fields__:
            parser.add_argument("--dry-run", action="store_true", help="print the plan only")
        parser.add_argument("--scratch", help="local folder on the executors")
        parser.add_argument("--master", help="Spark master when this is run without spark-submit")
        parser.add_argument("--remote", help="Spark Connect server, sc://host:15002")
        parser.add_argument(
            "--no-spark", action="store_true", help="kernels in this process, no Spark"
        )
        parser.add_argument("--dag-id", default="")
        parser.add_argument("--run-id", default="")
        parser.add_argument("--task-id", default="")
        parser.add_argument("--try-number", type=int, default=0)
        parser.add_argument("--user", default="")
        parser.add_argument("--approved-by", default="")
        parser.add_argument("--debug", action="store_true", help="tracebacks")
        return parser

    def _run(self, given: argparse.Namespace, interrupts: Interrupts) -> None:
        from firnline.settings.load import find_table
        from firnline.store.access import StoreAccess

        settings = find_table(given.table, given.settings)
        text = os.environ.get(ACCESS_VARIABLE)
        access = StoreAccess.from_json(text) if text else StoreAccess.from_env()
        named = {field: getattr(given, field.name) for field in self._fields()}
        arguments = {
            field.name: field.value(value)
            for field, value in named.items()
            if value is not None and value is not False and value != []
        }
        fields = _joined(_fields(given, self.about.options), arguments)
        place = Place(given.master, given.remote, given.scratch, in_process=given.no_spark)
        self.perform(Asked(settings, access, fields, _identity(given), place), interrupts, _print)

    def perform(
        self, asked: Asked, interrupts: Interrupts, tell: Callable[[Figures], None]
    ) -> None:
        """Do the work.

        Args:
            asked: what is to be done, and on which table.
            interrupts: through which it may be asked to stop.
            tell: is given the plan of a dry run, or the report, also that of a failure half-way.

        Raises:
            FirnlineError: it failed; what it had committed stays.
        """
        from firnline.table import open_table

        settings = asked.settings
        table = open_table(settings, asked.access, interrupts=interrupts)
        loaded = self.about.load()
        if asked.fields.get("dry_run") and loaded.preview is not None:
            tell(loaded.plan(table, _convert(asked.fields, self.about.options)))
            return
        spark = _Spark(self.about.name, table, asked)
        try:
            options = _convert(asked.fields, self.about.options)
            with Heartbeat(f"{self.about.name} of {settings.name}") as beat:
                from firnline.spark.footers import footers_by

                footers = None if asked.place.in_process else footers_by(spark.engine)
                work = Work(table, asked.run, spark.engine, beat, footers, consent=decided)
                done = loaded.run(work, options)
            tell(done)
            loaded.judge(done)
        except FirnlineError as error:
            report = getattr(error, "report", None)
            if report is not None:
                tell(report)
            raise
        finally:
            spark.stop()

    def _fields(self) -> list[OptionField]:
        """Return the options that are arguments too; ``--dry-run`` is one of every job."""
        return [field for field in option_fields(self.about.options) if field.name != "dry_run"]


def _add_argument(parser: argparse.ArgumentParser, field: OptionField) -> None:
    """Declare an option of the operation, for manual use."""
    metavar = field.option.metavar or None
    kinds: dict[str, dict[str, Any]] = {
        "flag": {"action": "store_true"},
        "number": {
            "metavar": metavar,
            "action": _OnceField,
            **({} if field.option.unit else {"type": int}),
        },
        "texts": {"metavar": metavar, "action": "append", "default": []},
        "pairs": {"metavar": metavar, "action": "append", "default": []},
        "choice": {"choices": field.choices, "action": _OnceField},
    }
    parser.add_argument(
        f"--{field.name}".replace("_", "-") if field.option.argument else field.flag,
        dest=field.name,
        help=field.option.text.replace("%", "%%"),
        **kinds.get(field.kind, {"metavar": metavar, "action": _OnceField}),
    )


class _OnceField(argparse.Action):
    """Stores the value of an option that may be given once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - as argparse calls it
        namespace: argparse.Namespace,
        values: object,
        option: str | None = None,
    ) -> None:
        """Store it. Raises UsageError if it was given before."""
        seen = namespace.__dict__.setdefault("_given", set())
        if self.dest in seen:
            raise UsageError(f"{option} is given twice", next_step="give it once")
        seen.add(self.dest)
        setattr(namespace, self.dest, values)


class _Once(_OnceField):
    """As above, of an option of the job itself, for which an empty text is no value.

    An option of the operation refuses it in the words of all doors.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option: str | None = None,
    ) -> None:
        """Store it. Raises UsageError if it is empty, unless it is without being given."""
        super().__call__(parser, namespace, values, option)
        if values == "" and self.default is None:
            raise UsageError(f"{option} is empty", next_step="write a value, or leave it out")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, next_step=f"see {self.prog} --help")


def _fields(given: argparse.Namespace, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the options as given in JSON."""
    text = os.environ.get(OPTIONS_VARIABLE)
    if given.options is not None and text is not None:
        raise UsageError(
            f"the job has options twice, in --options and in ${OPTIONS_VARIABLE}",
            next_step="leave one of them out",
        )
    text = text if given.options is None else given.options
    step = f"write a JSON object; the fields are {', '.join(_names(kind))}"
    try:
        fields = json.loads("{}" if text is None else text, object_pairs_hook=_once)
    except ValueError as error:
        raise UsageError(f"the options are not JSON: {error}", next_step=step) from None
    if not isinstance(fields, dict):
        raise UsageError("the options are not a JSON object", next_step=step)
    return {**fields, "dry_run": True} if getattr(given, "dry_run", False) else fields


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raises UsageError for a name that is in it twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"the options have {twice!r} twice", next_step="give it once")
    return fields


def _joined(fields: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of JSON and arguments. Raises UsageError for one that both have."""
    both = sorted(fields.keys() & arguments.keys())
    if both:
        raise UsageError(
            f"{both[0]} is given twice, in JSON and as an argument", next_step="give it once"
        )
    return {**fields, **arguments}


def _names(kind: type[msgspec.Struct]) -> list[str]:
    return sorted(kind.__struct_fields__)


def _convert(fields: Mapping[str, Any], options: type[OptionsT]) -> OptionsT:
    """Return options of what JSON has: a size or a time may be text, as at the other doors.

    Raises UsageError. It names field and type, and no key of an erase.
    """
    known = _names(options)
    unknown = sorted(fields.keys() - set(known))
    if unknown:
        raise UsageError(
            f"the options have a field {unknown[0]!r} that this job does not know",
            next_step=f"the fields are {', '.join(known)}",
        )
    missing = [
        field.name
        for field in msgspec.structs.fields(options)
        if field.required and field.name not in fields
    ]
    if missing:
        raise UsageError(
            f"the options have no {missing[0]}",
            next_step="give it in --options, or as an argument of the job",
        )
    return checked(options(**fields), options)


def _identity(given: argparse.Namespace) -> RunIdentity:
    from firnline.log.txn_file import RunIdentity

    return RunIdentity(
        dag_id=given.dag_id,
        run_id=given.run_id,
        task_id=given.task_id,
        try_number=given.try_number,
        user=given.user,
        approved_by=given.approved_by,
        host=socket.gethostname(),
    )


class _Spark:
    """The session, started at the best time.

    Under spark-submit the JVM is running already: the session starts while the log is read and the
    run planned. Otherwise a JVM starts only if there is work.
    """

    def __init__(self, job: str, table: Table, asked: Asked) -> None:
        from firnline.spark.session import is_submitted

        self._name = f"firnline {job} {table.settings.name}"
        self._table, self._asked = table, asked
        self._session: SparkSession | None = None
        self._error: Exception | None = None
        self._start = threading.Thread(target=self._open, name="firnline-session", daemon=True)
        if asked.place.given or is_submitted():
            self._start.start()

    def _open(self) -> None:
        from firnline.settings.spark_conf import conf_of
        from firnline.spark.session import given_session, open_session

        place, conf = self._asked.place, conf_of(self._asked.settings)
        try:
            if place.given:
                self._session = given_session(self._name)
            else:
                self._session = open_session(self._name, conf, place.master, place.remote)
        except Exception as error:  # noqa: BLE001 -- raised again by engine(), in its own thread
            self._error = error

    def engine(self) -> Engine:
        """Return the engine; an operation calls it once there is work."""
        scratch = self._asked.place.scratch
        if self._asked.place.in_process:
            return local_engine(self._table, None if scratch is None else Path(scratch))
        from firnline.spark.engine import SparkEngine

        if self._start.ident is None:
            self._start.start()
        self._start.join()
        if self._session is None:
            raise self._error or RuntimeError("the Spark session did not start")
        return SparkEngine(self._session, self._asked.settings.root, self._asked.access, scratch)

    def stop(self) -> None:
        """End the session, even if it is still starting."""
        from firnline.spark.session import keeps_session

        if self._start.ident is not None:
            self._start.join()
        if self._session is not None and not keeps_session():
            # A thread of its own has a connection of its own to the JVM: this one's may have been
            # interrupted in the middle of an answer.
            with ThreadPoolExecutor(1, "firnline-stop") as one:
                one.submit(self._session.stop).result()


def stopped() -> StoppedError:
    """Return the error of a job that was interrupted."""
    error = StoppedError(
        "the job was stopped; what it had committed stays, everything else is unchanged",
        next_step="run it again: it continues from there",
    )
    error.retryable = True  # every job may be run again
    return error


def _print(report: Figures) -> None:
    sys.stdout.write(json.dumps(report.to_json()) + "\n")


def _report_error(error: Exception, *, debug: bool) -> int:
    """Write one line for users and for Airflow's task; the traceback only with ``--debug``."""
    if debug:
        sys.stderr.write("".join(traceback.format_exception(error)))
    told = told_of(error)
    fields = {
        "type": type(told).__name__,
        "message": told.message,
        "next_step": told.next_step,
        "retryable": told.retryable,
    }
    sys.stderr.write(json.dumps({"error": fields}) + "\n")
    return told.exit_code


def told_of(error: Exception) -> FirnlineError:
    """Return an error as users are told it: one that nobody expected becomes one sentence."""
    if isinstance(error, FirnlineError):
        return error
    text = first_line(error)
    return FirnlineError(
        f"unexpected {type(error).__name__}: {text}",
        next_step="run again with --debug and report it",
    )
