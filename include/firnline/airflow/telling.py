"""Calls notifiers from Airflow's scheduler, in a process of their own with a time limit.

    python -m firnline.airflow.telling      with calls as JSON on stdin

A notifier is not ours, and may hang, leak or end its process: the scheduler's must not be that one.
It is handed over on stdin, because arguments of a notifier may be secrets, which a list of
processes would show.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from firnline.settings.notifiers import NotifierSettings

_LOG = logging.getLogger(__name__)

_MODULE = "firnline.airflow.telling"
LIMIT = 30
"""Seconds that one notifier may take."""
_START = 120
"""Seconds in which the process has to have started, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a notifier; arguments of ``alerts.tell``."""

    notifier: str
    arguments: Mapping[str, str]
    whose: str
    context: Mapping[str, Any]
    reason: str
    sentence: str


def call_of(
    alerts: NotifierSettings,
    whose: str,
    run: Mapping[str, Any],
    reason: str,
    sentence: str,
) -> list[Call]:
    """Return the call of a notifier; none if no notifier is set.

    Args:
        alerts: which notifier.
        whose: names it in the log: ``table flights``.
        run: ``dag_id``, ``run_id`` and ``conf`` of the run that it is about, as plain data.
        reason: of the call.
        sentence: what is told.
    """
    if not alerts.notifier:
        return []
    context = {"dag_run": dict(run)}
    return [Call(alerts.notifier, dict(alerts.arguments), whose, context, reason, sentence)]


def call_all(calls: Sequence[Call], start: int = _START, limit: int = LIMIT) -> None:
    """Call notifiers one after the other, in one new process; return when it has ended.

    What fails is logged. The process writes to the log of this one.

    Args:
        calls: whom, and what to tell.
        start: seconds for the process to start.
        limit: seconds for each notifier.
    """
    if not calls:
        return
    given = json.dumps({"limit": limit, "calls": [asdict(call) for call in calls]})
    process = subprocess.Popen(
        [sys.executable, "-m", _MODULE],
        stdin=subprocess.PIPE,
        env=_environment(),
        text=True,
        # It ends with whatever the notifiers have started.
        start_new_session=True,
    )
    try:
        process.communicate(given, timeout=start + limit * len(calls))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0:
        _LOG.error("the process that calls notifiers ended with %d", process.returncode)


def _environment() -> dict[str, str]:
    """Return the environment in which notifiers find connections, and are found themselves."""
    from airflow.configuration import conf

    # As in the DAG processor, where the DAGs folder is on the path, too.
    path = [*sys.path, conf.get("core", "dags_folder")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        # Without it Airflow does not look for connections in its database.
        "_AIRFLOW_PROCESS_CONTEXT": "server",
    }


def _out_of_time(*_: object) -> None:
    raise TimeoutError("the notifier took too long")


def main() -> None:
    """Call the notifiers that stdin names. One that fails is logged, and the others are called."""
    given = json.load(sys.stdin)
    from firnline.airflow.alerts import tell

    signal.signal(signal.SIGALRM, _out_of_time)
    for row in given["calls"]:
        call = Call(**row)
        alerts = NotifierSettings(notifier=call.notifier, arguments=dict(call.arguments))
        signal.alarm(given["limit"])
        try:
            tell(alerts, call.whose, call.context, call.reason, call.sentence)
        finally:
            signal.alarm(0)


if __name__ == "__main__":
    main()
