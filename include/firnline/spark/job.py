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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from firnline.errors import FirnlineError, StoppedError, UsageError
from firnline.interrupts import Interrupts
from firnline.operations.fields import OptionField, option_fields
from firnline.operations.job_variables import OPTIONS_VARIABLE
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
            return _report_error(interrupts.over() or _stopped(), debug=debug)
        except Exception as error:  # noqa: BLE001 -- the last place where it becomes one sentence
            # An interrupt in the middle of a call to Spark or DuckDB comes back as an error of it.
            return _report_error(interrupts.over() or error, debug=debug)
        interrupts.over()
        return 0

    def _parser(self) -> argparse.ArgumentParser:
        parser = _Parser(self.about.name, description=f"{self.about.title}.")
        parser.add_argument("table", help="name in the settings file, or a root URL")
        parser.add_argument("--settings", type=Path, help="settings file ($FIRNLINE_TABLES)")
        parser.add_argument("--options", metavar="JSON", help=f"what to do (${OPTIONS_VARIABLE})")
        for field in self._fields():
            _add_argument(parser, field)
        parser.add_argument("--dry-run", action="store_true", help="print the plan only")
        parser.add_argument("--scratch", help="local folder on the executors")
        parser.add_argument("--master", help="Spark master when this is run without spark-submit")
        parser.add_argument("--remote", help="Spark Connect server, sc://host:15002")
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
        from firnline.table import open_table

        settings = find_table(given.table, given.settings)
        text = os.environ.get(ACCESS_VARIABLE)
        access = StoreAccess.from_json(text) if text else StoreAccess.from_env()
        table = open_table(settings, access, interrupts=interrupts)
        named = {field: getattr(given, field.name) for field in self._fields()}
        fields = _fields(given) | {
            field.name: field.value(value)
            for field, value in named.items()
            if value is not None and value is not False and value != []
        }
        if fields.get("dry_run"):
            loaded = self.about.load()
            options = _convert(fields, self.about.options)
            if loaded.preview is not None:
                _print(loaded.plan(table, options))
                return
        spark = _Spark(self.about.name, settings, access, given)
        try:
            loaded = self.about.load()
            options = _convert(fields, self.about.options)
            with Heartbeat(f"{self.about.name} of {settings.name}") as beat:
                from firnline.spark.footers import footers_by

                footers = footers_by(spark.engine)
                who, engine = _identity(given), spark.engine
                work = Work(table, who, engine, beat, footers, consent=decided)
                done = loaded.run(work, options)
            _print(done)
            loaded.judge(done)
        except FirnlineError as error:
            report = getattr(error, "report", None)
            if report is not None:
                _print(report)
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
        "number": {"metavar": metavar, **({} if field.option.unit else {"type": int})},
        "texts": {"metavar": metavar, "action": "append", "default": []},
        "pairs": {"metavar": metavar, "action": "append", "default": []},
        "choice": {"choices": field.choices},
    }
    parser.add_argument(
        f"--{field.name}".replace("_", "-") if field.option.argument else field.flag,
        dest=field.name,
        help=field.option.text.replace("%", "%%"),
        **kinds.get(field.kind, {"metavar": metavar}),
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, next_step=f"see {self.prog} --help")


def _fields(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options as given."""
    text = os.environ.get(OPTIONS_VARIABLE)
    if given.options is not None and text is not None:
        raise UsageError(
            f"the job has options twice, in --options and in ${OPTIONS_VARIABLE}",
            next_step="leave one of them out",
        )
    try:
        fields = json.loads(given.options or text or "{}")
    except ValueError as error:
        raise UsageError(f"the options are not JSON: {error}", next_step=_OPTIONS_STEP) from None
    if not isinstance(fields, dict):
        raise UsageError("the options are not a JSON object", next_step=_OPTIONS_STEP)
    return {**fields, "dry_run": True} if given.dry_run else fields


_OPTIONS_STEP = 'write a JSON object, as {"dry_run": true}; the names are those of docs/cli.md'


def _convert(fields: dict[str, Any], options: type[OptionsT]) -> OptionsT:
    import msgspec

    known = {field.encode_name for field in msgspec.structs.fields(options)}
    unknown = sorted(fields.keys() - known)
    if unknown:
        raise UsageError(
            f"the options have a field {unknown[0]!r} that this job does not know",
            next_step=f"the fields are {', '.join(sorted(known))}",
        )
    try:
        return msgspec.convert(fields, options)
    except msgspec.ValidationError as error:
        # The error names field and type, and no value: keys of persons may be among them.
        raise UsageError(f"the options are not valid: {error}", next_step=_OPTIONS_STEP) from None


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

    def __init__(
        self, job: str, settings: TableSettings, access: StoreAccess, given: argparse.Namespace
    ) -> None:
        from firnline.spark.session import is_submitted

        self._name = f"firnline {job} {settings.name}"
        self._settings, self._access, self._given = settings, access, given
        self._session: SparkSession | None = None
        self._error: Exception | None = None
        self._start = threading.Thread(target=self._open, name="firnline-session", daemon=True)
        if is_submitted():
            self._start.start()

    def _open(self) -> None:
        from firnline.settings.spark_conf import conf_of
        from firnline.spark.session import open_session

        given, conf = self._given, conf_of(self._settings)
        try:
            self._session = open_session(self._name, conf, given.master, given.remote)
        except Exception as error:  # noqa: BLE001 -- raised again by engine(), in its own thread
            self._error = error

    def engine(self) -> Engine:
        """Return the engine; an operation calls it once there is work."""
        from firnline.spark.engine import SparkEngine

        if self._start.ident is None:
            self._start.start()
        self._start.join()
        if self._session is None:
            raise self._error or RuntimeError("the Spark session did not start")
        return SparkEngine(self._session, self._settings.root, self._access, self._given.scratch)

    def stop(self) -> None:
        """End the session, even if it is still starting."""
        if self._start.ident is not None:
            self._start.join()
        if self._session is not None:
            # A thread of its own has a connection of its own to the JVM: this one's may have been
            # interrupted in the middle of an answer.
            with ThreadPoolExecutor(1, "firnline-stop") as one:
                one.submit(self._session.stop).result()


def _stopped() -> StoppedError:
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
    if not isinstance(error, FirnlineError):
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        error = FirnlineError(
            f"unexpected {type(error).__name__}: {text}",
            next_step="run again with --debug and report it",
        )
    fields = {
        "type": type(error).__name__,
        "message": error.message,
        "next_step": error.next_step,
        "retryable": error.retryable,
    }
    sys.stderr.write(json.dumps({"error": fields}) + "\n")
    return error.exit_code
