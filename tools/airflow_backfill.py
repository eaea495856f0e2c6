"""`airflow backfill create` on a local stack.

SQLite gives up at once where a transaction has read, another has written, and the first wants to
write; and creating a backfill reads before it writes. On PostgreSQL none of this is needed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator, Mapping
from typing import Any

from firnline.errors import EnvironmentFaultError
from tools.airflow_stack import AirflowStack

_WRITERS = ("scheduler", "dag-processor")
_TRIES = 5
_LOCKED = "sqlalche.me/e/21/e3q8"
"""End of SQLAlchemy's message of an OperationalError; the beginning is cut off."""


def create_backfill(
    stack: AirflowStack,
    dag_id: str,
    days: tuple[str, str],
    conf: Mapping[str, Any],
    *more: str,
) -> None:
    """Create a backfill, one run at a time, while nobody else writes to the stack's database.

    Args:
        stack: ready.
        dag_id: of a DAG that it knows.
        days: first and last date, ``2024-03-01``.
        conf: params of every run.
        more: further options of the command, such as ``--run-backwards``.

    Raises:
        EnvironmentFaultError: Airflow refused it; with its last lines.
    """
    command = ["backfill", "create", "--dag-id", dag_id, "--max-active-runs", "1"]
    command += ["--from-date", days[0], "--to-date", days[1], "--dag-run-conf", json.dumps(conf)]
    if stack.options.database is not None:
        stack.airflow(*command, *more)
        return
    for attempt in range(1, _TRIES + 1):
        try:
            with _nobody_writes(stack):
                stack.airflow(*command, *more)
        except EnvironmentFaultError as error:
            # The API server writes too, while tasks run.
            if _LOCKED not in str(error) or attempt == _TRIES:
                raise
        else:
            return


@contextlib.contextmanager
def _nobody_writes(stack: AirflowStack) -> Iterator[None]:
    """Hold the components that write by themselves, none of them in a transaction."""
    try:
        for name in _WRITERS:
            _hold(stack, stack.programs.pid(name))
        yield
    finally:
        for name in _WRITERS:
            os.kill(stack.programs.pid(name), signal.SIGCONT)


def _hold(stack: AirflowStack, pid: int) -> None:
    for _ in range(100):
        os.kill(pid, signal.SIGSTOP)
        if _is_free(stack):
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)


def _is_free(stack: AirflowStack) -> bool:
    """Return True if no process holds the write lock of the database."""
    with contextlib.closing(sqlite3.connect(stack.home / "airflow.db", timeout=0.5)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        database.rollback()
        return True
