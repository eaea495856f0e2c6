"""Calls notifiers from Airflow's scheduler, each in a process of its own with a time limit.

    python -m firnline.airflow.telling      with a call as JSON on stdin

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
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from firnline.airflow.within import LIMIT
from firnline.child_process import own_python
from firnline.settings.notifiers import NotifierSettings

_LOG = logging.getLogger(__name__)

_MODULE = "firnline.airflow.telling"
_MOST = 4
"""Processes at a time: each of them is an Airflow that starts."""
_START = 120.0
"""Seconds in which the process has to have started, on a busy machine."""
_TOLD = 64
"""How the process ends after the notifier has returned, and no notifier would end it."""


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


class Tellers:
    """Threads that call notifiers, a few at a time, for those who must not wait for them.

    They begin when there is somebody to call, and end when there is nobody.

    Args:
        tell: calls one.
        most: how many are called at a time.
    """

    def __init__(self, tell: Callable[[Call], None], most: int = _MOST) -> None:
        self._tell = tell
        self._most = most
        self._asked: deque[Call] = deque()
        self._threads = 0
        self._lock = threading.Lock()

    def ask(self, calls: Sequence[Call]) -> None:
        """Have notifiers called soon."""
        with self._lock:
            self._asked.extend(calls)
            more = min(len(self._asked), self._most - self._threads)
            self._threads += more
        for _ in range(more):
            threading.Thread(target=self._work, name="firnline-telling", daemon=True).start()

    def _work(self) -> None:
        while (call := self._next()) is not None:
            try:
                self._tell(call)
            except Exception:  # noqa: BLE001 - logged; the others are called
                _LOG.exception("the notifier %s of %s failed", call.notifier, call.whose)

    def _next(self) -> Call | None:
        # Under the lock, so that whoever asks next knows whether this thread goes on.
        with self._lock:
            if self._asked:
                return self._asked.popleft()
            self._threads -= 1
            return None


def tell_apart(call: Call, start: float = _START, limit: float = LIMIT) -> None:
    """Call a notifier in a new process, and once more if it is lost; return when that has ended.

    What is lost is an error in the log. The process writes to the log of this one.

    Args:
        call: whom, and what to tell.
        start: seconds for the process to start.
        limit: seconds for the notifier.
    """
    for then in ("it is called once more", f"{call.reason}: {call.sentence}"):
        problem = _call(call, start, limit)
        if problem is None:
            return
        subject = (call.notifier, call.whose)
        _LOG.error("the notifier %s of %s failed: %s; %s", *subject, problem, then)


def _call(call: Call, start: float, limit: float) -> str | None:
    """Return why a call is lost; None if it is not."""
    process = subprocess.Popen(
        own_python(_MODULE),
        stdin=subprocess.PIPE,
        env=_environment(),
        text=True,
        # It ends with whatever the notifier has started.
        start_new_session=True,
    )
    problem = None
    try:
        given = json.dumps({"limit": limit, "call": asdict(call)})
        process.communicate(given, timeout=start + limit)
    except subprocess.TimeoutExpired:
        problem = f"its process was killed after {start + limit:g} s"
    if problem is None and process.returncode == -signal.SIGALRM:
        problem = f"it took more than {limit:g} s"
    elif problem is None and process.returncode != _TOLD:
        problem = f"its process ended with {process.returncode}"
    if problem is not None:
        with suppress(ProcessLookupError):  # none of them is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return problem


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


def main() -> None:
    """Call the notifier that stdin names."""
    given = json.load(sys.stdin)
    call = Call(**given["call"])
    from firnline.airflow.alerts import Told, notify

    told = Told.of(call.context, call.reason, call.sentence)
    # Without a handler it is the system that ends this process: no exception that the notifier
    # could take for one of its own, and nobody has to be left who watches.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, given["limit"])
    try:
        notify(call.notifier, call.arguments, call.context, told)
    except BaseException:  # noqa: BLE001 - sys.exit, too, and whoever waits hears of it
        _LOG.exception("the notifier %s of %s failed", call.notifier, call.whose)
        sys.exit(1)
    sys.exit(_TOLD)


if __name__ == "__main__":
    main()
