"""Spark job: merge small parts of one table into large sorted ones.

    spark-submit spark_jobs/merge.py flights --run-id=… --partition='sched_dep_month=2013-12'

Credentials come from the environment of the driver, never from arguments. A failure is one line of
JSON on stderr, ``{"error": {"message", "next_step", "retryable", …}}``; exit code 1 failed, 2 wrong
usage.
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
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from firnline.errors import FirnlineError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firnline.kernel.engine import Engine
    from firnline.operations.merge import MergeOptions
    from firnline.settings import TableSettings
    from firnline.store.access import StoreAccess
    from firnline.table import Table

ACCESS_VARIABLE = "FIRNLINE_STORE_ACCESS"
"""``StoreAccess.to_json`` of the table's Airflow connection, when it has one."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, next_step=f"see {self.prog} --help")


def main(arguments: Sequence[str]) -> int:
    """Run the job; returns the exit code."""
    debug = "--debug" in arguments
    try:
        return _run(_parser().parse_args(arguments))
    except Exception as error:  # noqa: BLE001 -- the last place where it becomes one sentence
        return _tell(error, debug=debug)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("merge", description="Merge small parts of one table into large sorted ones.")
    parser.add_argument("table", help="name in the settings file, or a root URL")
    parser.add_argument("--settings", type=Path, help="settings file ($FIRNLINE_TABLES)")
    parser.add_argument(
        "--partition", action="append", default=[], metavar="GLOB", help="may be repeated"
    )
    parser.add_argument("--max-bytes", type=_size, help="bytes to read at most, 10GiB")
    parser.add_argument("--dry-run", action="store_true", help="print the plan only")
    parser.add_argument("--scratch", help="local folder on the executors")
    parser.add_argument("--master", help="Spark master when this is run without spark-submit")
    parser.add_argument("--remote", help="Spark Connect server, sc://host:15002")
    parser.add_argument("--dag-id", default="")
    parser.add_argument("--run-id", default="")
    parser.add_argument("--try-number", type=int, default=0)
    parser.add_argument("--user", default="")
    parser.add_argument("--debug", action="store_true", help="tracebacks")
    return parser


def _size(text: str) -> int:
    from firnline.units import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _run(given: argparse.Namespace) -> int:
    from firnline.log.txn_file import RunIdentity
    from firnline.operations.merge import MergeFailedError, MergeOptions, run_merge
    from firnline.settings import find_table
    from firnline.store.access import StoreAccess
    from firnline.table import open_table

    settings = find_table(given.table, given.settings)
    text = os.environ.get(ACCESS_VARIABLE)
    access = StoreAccess.from_json(text) if text else StoreAccess.from_env()
    table = open_table(settings, access)
    options = MergeOptions(
        partitions=tuple(given.partition), max_bytes=given.max_bytes, dry_run=given.dry_run
    )
    if given.dry_run:
        return _preview(table, options)
    spark = _Spark(settings, access, given)
    run = RunIdentity(
        dag_id=given.dag_id,
        run_id=given.run_id,
        try_number=given.try_number,
        user=given.user,
        host=socket.gethostname(),
    )
    try:
        report = run_merge(table, spark.engine, options, run)
    except MergeFailedError as error:
        _print(error.report.to_json())
        raise
    finally:
        spark.stop()
    _print(report.to_json())
    return 0


def _preview(table: Table, options: MergeOptions) -> int:
    from firnline.operations.merge import preview

    _print(preview(table, options).to_json())
    return 0


class _Spark:
    """The session, begun at the best time.

    Under spark-submit the JVM is there already: the session starts while the log is read and the
    merge planned. Otherwise a JVM starts only when there is something to merge.
    """

    def __init__(
        self, settings: TableSettings, access: StoreAccess, given: argparse.Namespace
    ) -> None:
        from firnline.spark.session import is_submitted

        self._settings, self._access, self._given = settings, access, given
        self._session: SparkSession | None = None
        self._error: Exception | None = None
        self._start = threading.Thread(target=self._open, name="firnline-session", daemon=True)
        if is_submitted():
            self._start.start()

    def _open(self) -> None:
        from firnline.spark.session import open_session
        from firnline.spark_conf import with_defaults

        given, settings = self._given, self._settings
        merge = settings.merge
        conf = with_defaults(settings.spark.conf, merge.kernel_memory, merge.kernel_threads)
        try:
            name = f"firnline merge {settings.name}"
            self._session = open_session(name, conf, given.master, given.remote)
        except Exception as error:  # noqa: BLE001 -- raised again by engine(), in its own thread
            self._error = error

    def engine(self) -> Engine:
        """What ``run_merge`` asks for once there is something to do."""
        from firnline.spark.run import SparkEngine

        if self._start.ident is None:
            self._start.start()
        self._start.join()
        if self._session is None:
            raise self._error or RuntimeError("the Spark session did not start")
        return SparkEngine(self._session, self._settings.root, self._access, self._given.scratch)

    def stop(self) -> None:
        """End the session, also one that is still starting."""
        if self._start.ident is not None:
            self._start.join()
        if self._session is not None:
            self._session.stop()


def _print(data: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")


def _tell(error: Exception, *, debug: bool) -> int:
    """One line for people and for Airflow's task alike; the traceback only when asked for."""
    if debug:
        sys.stderr.write("".join(traceback.format_exception(error)))
    if not isinstance(error, FirnlineError):
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        error = FirnlineError(
            f"unexpected {type(error).__name__}: {text}",
            next_step="run again with --debug and report it",
        )
    told = {
        "type": type(error).__name__,
        "message": error.message,
        "next_step": error.next_step,
        "retryable": error.retryable,
    }
    sys.stderr.write(json.dumps({"error": told}) + "\n")
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
