"""The thread of Airflow's scheduler that sees what no run can tell, and calls notifiers.

It looks for runs that wait in a pool that is gone, and for the silence of the planner, and has the
notifiers of runs that fail at their start called. ``pool_guard`` begins it. Other threads wait for
notifiers (``telling``).

The scheduler forks. What the thread holds then, nobody in the child would give back: so all that it
imports is imported before it begins, and it has settings and sessions of its own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.jobs.job import Job
from airflow.models.variable import Variable
from airflow.utils.session import create_session
from sqlalchemy import select

from firnline.airflow.alerts import table_to_tell
from firnline.airflow.kept import SettingsFile
from firnline.airflow.memory import decoded, encoded
from firnline.airflow.settings import read_settings
from firnline.airflow.silence import (
    CONFIRM_MS,
    SILENT,
    is_wanted,
    read_planner,
    silence,
    well_again,
)
from firnline.airflow.stuck import Stuck, stuck_runs
from firnline.airflow.telling import Call, Tellers, call_of, tell_apart
from firnline.airflow.troubles import Trouble, compare, troubles_of
from firnline.clock import Clock, SystemClock
from firnline.errors import FirnlineError, SettingsError
from firnline.operations.dag_ids import FLEET
from firnline.operations.pools import POOL_WRONG
from firnline.settings.files import UnreadFile
from firnline.settings.load import Settings, settings_path

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_LOG = logging.getLogger("firnline.watch")

EVERY_MS = 30_000
"""Between two looks."""
KNOWN = "firnline.silence"
"""Variable of Airflow that holds the troubles of which it has told, as ``troubles.KNOWN``."""
_SCHEDULER = "SchedulerJob"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A table to tell as soon as possible."""

    table: str
    run: Mapping[str, Any]
    reason: str
    sentence: str


_ASKED: SimpleQueue[_Asked] = SimpleQueue()
_POKED = threading.Event()


def call_soon(table: str, run: Mapping[str, Any], reason: str, sentence: str) -> None:
    """Have the thread of this process call the notifier of a table, at once; do not wait for it.

    Args:
        table: name.
        run: ``dag_id``, ``run_id`` and ``conf`` of the run.
        reason: of the call.
        sentence: what is told.
    """
    _ASKED.put(_Asked(table, run, reason, sentence))
    _POKED.set()


def begin(job: Any) -> None:  # noqa: ANN401 - airflow.jobs.job.Job
    """Start the thread, which ends by itself in what turns out to be no scheduler.

    Args:
        job: of this process; it has neither type nor id yet.
    """

    def me() -> tuple[str | None, int | None]:
        # Not its attributes: they might be read from the database by a session of another thread.
        return vars(job).get("job_type"), vars(job).get("id")

    clock = SystemClock()
    watch = Watch(
        me,
        partial(create_session, scoped=False),
        SettingsFile(clock, read_settings),
        clock,
        Tellers(tell_apart).ask,
    )
    threading.Thread(target=watch.run, name="firnline-watch", daemon=True).start()


class Watch:
    """What the thread does.

    Args:
        me: type and id of the job of this process; None as long as they are not known.
        sessions: opens a session of Airflow's database, which commits at its end.
        settings: returns the settings as they are now.
        clock: tells the time.
        call: has notifiers called, without waiting for them.
    """

    def __init__(
        self,
        me: Callable[[], tuple[str | None, int | None]],
        sessions: Callable[[], AbstractContextManager[Session]],
        settings: Callable[[], Settings],
        clock: Clock,
        call: Callable[[list[Call]], None],
    ) -> None:
        self._me = me
        self._sessions = sessions
        self._settings = settings
        self._clock = clock
        self._call = call
        self._up_ms = clock.now_ms()
        self._noted: set[tuple[str, str, str]] = set()
        self._seen: dict[str, int] = {}

    def run(self) -> None:
        """Look every half minute and call what is asked for in between; in a scheduler for ever."""
        due = self._clock.elapsed_ms() + EVERY_MS
        while True:
            _POKED.wait(max(0, due - self._clock.elapsed_ms()) / 1000)
            _POKED.clear()
            if self._me()[0] not in (None, _SCHEDULER):
                return
            self._guarded(self.call_asked)
            if self._clock.elapsed_ms() >= due:
                due = self._clock.elapsed_ms() + EVERY_MS
                self._guarded(self.look)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:  # noqa: BLE001 - logged; the next look tries again
            _LOG.exception("the watch over pools and planner failed, and goes on")

    def call_asked(self) -> None:
        """Call the notifiers of the tables that ``call_soon`` has been given."""
        asked: list[_Asked] = []
        while True:
            try:
                asked.append(_ASKED.get_nowait())
            except Empty:
                break
        if not asked:
            return
        settings, _ = self._read()
        calls = [
            call
            for each in asked
            for call in _calls(settings, each.table, each.run, each.reason, each.sentence)
        ]
        self._call(calls)

    def look(self) -> None:
        """Look once, note and tell what is new; nothing if another scheduler does."""
        # One that fails does not keep the other from its work.
        self._guarded(self._look_at_pools)
        self._guarded(self._look_at_planner)

    def _look_at_pools(self) -> None:
        settings, _ = self._read()
        with self._sessions() as session:
            stuck = list(stuck_runs(session)) if self._is_in_charge(session) else []
        # After the commit: what is told is known then, whatever becomes of the calls.
        self._call(self._tell_stuck(stuck, settings))

    def _look_at_planner(self) -> None:
        settings, unread = self._read()
        with self._sessions() as session:
            in_charge = self._is_in_charge(session)
            calls = self._fleet(session, settings, unread) if in_charge else []
        self._call(calls)

    def _is_in_charge(self, session: Session) -> bool:
        """Return True if this is the scheduler with the smallest id among those that are alive."""
        me = self._me()[1]
        if me is None:
            return False
        threshold = conf.getfloat("scheduler", "scheduler_health_check_threshold")
        since_s = self._clock.now_ms() / 1000 - threshold
        query = select(Job.id).where(
            Job.job_type == _SCHEDULER,
            Job.state == "running",
            Job.latest_heartbeat >= datetime.fromtimestamp(since_s, UTC),
        )
        # The thread of a scheduler whose heart does not beat acts if there is no other one.
        return min(session.scalars(query), default=me) == me

    def _read(self) -> tuple[Settings | None, list[UnreadFile]]:
        """Return the settings, if there are any, and the files that do not read."""
        try:
            found = self._settings()
        except SettingsError as error:
            return None, [UnreadFile(settings_path(), error, None)]
        except FirnlineError as error:
            _LOG.error("%s", error)
            return None, []
        return found, list(found.unread)

    def _tell_stuck(self, stuck: list[Stuck], settings: Settings | None) -> list[Call]:
        """Return the calls of the runs that were not noted before."""
        calls: list[Call] = []
        # A note that is full of what people wrote takes no more: then this one remembers.
        new = [each for each in stuck if not each.noted and each.key not in self._noted]
        for each in new:
            _LOG.error("%s (run %s of %s)", each.problem, each.run["run_id"], each.run["dag_id"])
            calls += _calls(settings, each.table, each.run, POOL_WRONG, each.problem)
        self._noted = {each.key for each in stuck}
        return calls

    def _fleet(
        self, session: Session, settings: Settings | None, unread: list[UnreadFile]
    ) -> list[Call]:
        """Return the calls that tell of new troubles of the fleet, and of those that are over."""
        now_ms = self._clock.now_ms()
        wanted, planner = is_wanted(settings), read_planner(session)
        sentence = silence(planner, wanted=wanted, up_ms=self._up_ms, now_ms=now_ms)
        kinds = troubles_of([], [], unread)
        troubles = dict(zip(kinds, (file.sentence for file in unread), strict=True))
        troubles |= {} if sentence is None else {SILENT: sentence}
        before = _recall(session)
        self._seen = {each.key: self._seen.get(each.key, now_ms) for each in troubles}
        lasting = [each for each in troubles if each.key in before or self._lasts(each, now_ms)]
        found = compare(before, lasting, (), now_ms)
        if found.known != before:
            _keep(session, found.known)
        said = [troubles[each] for each in lasting if each.subject in found.new]
        for each in said:
            _LOG.error("%s", each)
        told = {"silent": "; ".join(said), "recovered": well_again(found.over)}
        if settings is None:
            return []
        run = {"dag_id": FLEET, "run_id": "", "conf": {}}
        return [
            call
            for reason, text in told.items()
            if text
            for call in call_of(settings.fleet.alerts, "the planner", run, reason, text)
        ]

    def _lasts(self, trouble: Trouble, now_ms: int) -> bool:
        """Return True if it was there in an earlier look: a file may be half written in one."""
        confirm = CONFIRM_MS if trouble == SILENT else 1
        return now_ms - self._seen[trouble.key] >= confirm


def _calls(
    settings: Settings | None, name: str, run: Mapping[str, Any], reason: str, sentence: str
) -> list[Call]:
    """Return the call of a table's notifier; none without one."""
    table = None if settings is None else table_to_tell(settings, name)
    if table is None:
        return []
    return call_of(table.alerts, f"table {name}", run, reason, sentence)


def _variable(session: Session) -> Variable | None:
    return session.scalar(select(Variable).where(Variable.key == KNOWN))


def _recall(session: Session) -> dict[str, int]:
    """Return what ``_keep`` was given last."""
    found = _variable(session)
    text: str | None = None if found is None else found.get_val()  # type: ignore[no-untyped-call]
    return decoded(KNOWN, text, dict[str, int], {})


def _keep(session: Session, known: Mapping[str, int]) -> None:
    variable = _variable(session)
    if variable is None:
        about = "what the scheduler has told of, and when (unix ms)"
        variable = Variable(key=KNOWN, description=about)  # type: ignore[no-untyped-call]
        session.add(variable)
    variable.set_val(encoded(known))  # type: ignore[no-untyped-call]
