"""The requests of erasure as the page shows them: plain data without keys and digests."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from firnline.airflow.page.board import Known, Looks
from firnline.airflow.page.planned import Planned
from firnline.errors import UsageError
from firnline.operations.erasure.folder import Requests, Standing
from firnline.operations.erasure.plan import Open, Reached, by_urgency, plan_erasure, urgency
from firnline.operations.erasure.record import Closed, ErasedTable, Request
from firnline.operations.erasure.run import clock_text
from firnline.settings.load import Settings

MOST_OPEN, MOST_CLOSED = 100, 50
"""Requests that are shown: the most urgent, and those that were closed last."""


def summary(known: Known) -> dict[str, Any]:
    """Return how many requests there are, as plain data; numbers are None before the first look.

    ``problem``: why the folder cannot be read now; the numbers are then those of the last time.
    """
    plain: dict[str, Any] = dict.fromkeys(("open", "overdue", "soon", "closed", "unread"))
    found = known.folder.value
    if found is not None:
        still = by_urgency(found)
        due = Counter(urgency(each, known.settings.erasure, known.now_ms) for each in still)
        plain |= {"open": len(still), "overdue": due["overdue"], "soon": due["soon"]}
        closed = len(found.standing) - len(still)
        plain |= {"closed": closed, "unread": len(found.unread)}
    return {**plain, "problem": known.folder.problem}


@dataclass(frozen=True, slots=True)
class Seen:
    """The tables that a user may see, each with its DAG."""

    settings: Settings
    dags: Mapping[str, str]
    """Table -> DAG whose tab is its page; those that the user may read."""

    def shown(self, table: str) -> bool:
        """Return False for a table that the user may not read; one that is gone has no DAG."""
        named = table in self.settings.tables or table in self.settings.broken
        return table in self.dags or not named

    def names(self, tables: Iterable[str]) -> list[str]:
        """Return those that are shown."""
        return [each for each in tables if self.shown(each)]


def requests_json(known: Known, seen: Seen, run: Planned | None) -> dict[str, Any]:
    """Return all that the page shows, as plain data; tables the user may not read only as numbers.

    Args:
        known: the requests.
        seen: the tables of the user.
        run: what the newest run of ``erase_person`` has found.

    ``requests`` and ``closed`` are None until the folder was read once; the ``tables`` of a request
    are None until the tables were. ``people`` is the number of tables with rows of people,
    ``unread`` are requests that do not read, ``away`` tables.
    """
    folder, looks = known.folder, known.looks
    plain: dict[str, Any] = {
        "folder": known.settings.erasure.requests,
        "people": sum(bool(each.person) for each in known.settings.tables.values()),
        "summary": summary(known),
        "age_ms": _age(folder.read_ms, known.now_ms),
        "waiting_ms": _age(folder.asked_ms, known.now_ms) if folder.under_way else None,
        "tables_age_ms": _age(looks.read_ms, known.now_ms),
        "tables_problem": looks.problem,
        "refreshing": folder.under_way or looks.under_way,
        "run": None if run is None else {"run_id": run.run_id, "now_ms": run.now_ms},
        **dict.fromkeys(("requests", "closed")),
        "unstated": [],
        "unread": [],
        "away": [],
    }
    if folder.value is not None:
        plain |= _standing(known, folder.value, seen, run)
    return plain


def _standing(known: Known, found: Requests, seen: Seen, run: Planned | None) -> dict[str, Any]:
    looks = known.looks.value or Looks(frozenset(), (), ())
    tables = looks.tables if run is None else [run.over(each) for each in looks.tables]
    settings, now = known.settings.erasure, known.now_ms
    plan = plan_erasure(found, tables, looks.unstated, settings, now)
    ended = [(each.request, each.closed) for each in found.standing if each.closed is not None]
    ended.sort(key=lambda each: (each[1].closed_ms, each[0].id), reverse=True)
    return {
        "requests": [
            _open(each, seen, now, looked=each.request.id in looks.requests)
            for each in plan.requests[:MOST_OPEN]
        ],
        "closed": [_closed(request, end, seen) for request, end in ended[:MOST_CLOSED]],
        "unstated": seen.names(plan.unstated),
        "unread": list(plan.unread),
        "away": [
            {"table": each.table, "why": each.unread}
            for each in tables
            if each.unread and seen.shown(each.table)
        ],
    }


def _request(request: Request) -> dict[str, Any]:
    return {
        "id": request.id,
        "reference": request.reference,
        "received_ms": request.received_ms,
        "due_ms": request.due_ms,
        "taken_by": request.taken_by.user,
        "keys": request.keys,
        "columns": list(request.columns),
    }


def _open(one: Open, seen: Seen, now_ms: int, *, looked: bool) -> dict[str, Any]:
    due = {"due": clock_text(one.request.due_ms, now_ms), "urgency": one.urgency}
    plain = {**_request(one.request), **due}
    if not looked:
        names = ("state", "tables", "of", "erased", "certified", "hidden")
        return {**plain, **dict.fromkeys(names)}
    without = sum(each.state in ("left out", "no key") for each in one.tables)
    shown = [each for each in one.tables if seen.shown(each.table)]
    return {
        **plain,
        "state": "waiting" if one.waiting else "open",
        "tables": [_reached(each, seen) for each in shown],
        "of": len(one.tables) - without,
        "erased": len(one.erased),
        "certified": len(one.complete),
        "hidden": len(one.tables) - len(shown),
    }


def _reached(one: Reached, seen: Seen) -> dict[str, Any]:
    return {
        "table": one.table,
        "dag": seen.dags.get(one.table),
        "state": one.state,
        "why": one.why,
        "certificate": one.certificate,
        "ripe_ms": one.ripe_ms,
        "completed_ms": None if one.erased is None else one.erased.completed_ms,
    }


def _closed(request: Request, end: Closed, seen: Seen) -> dict[str, Any]:
    shown = [each for each in end.tables if seen.shown(each.table)]
    return {
        **_request(request),
        "state": "withdrawn" if end.withdrawn else "done",
        "closed_ms": end.closed_ms,
        "closed_by": end.closed_by.user,
        "late": not end.withdrawn and end.closed_ms > request.due_ms,
        "withdrawn": end.withdrawn,
        "tables": [_certified(each, seen) for each in shown],
        "hidden": len(end.tables) - len(shown),
        "without": seen.names(end.without),
        "unstated": seen.names(end.unstated),
        "bundle": not end.withdrawn and _may_have(end, seen),
    }


def _may_have(end: Closed, seen: Seen) -> bool:
    """Return True if a user may have the bundle, and all of its tables are still there."""
    names = [*end.without, *end.unstated]
    return seen.names(names) == names and all(each.table in seen.dags for each in end.tables)


def _certified(one: ErasedTable, seen: Seen) -> dict[str, Any]:
    return {
        "table": one.table,
        "dag": seen.dags.get(one.table),
        "certificate": one.certificate,
        "completed_ms": one.completed_ms,
    }


def named_in(standing: Standing) -> list[str]:
    """Return the tables that a bundle of a request names.

    Raises UsageError: it is open or was withdrawn, so there is no proof of all of it.
    """
    end = standing.closed
    if end is None or end.withdrawn:
        raise UsageError(
            f"request {standing.request.id} is not done",
            next_step="`firnline erasure show` says what an open one waits for",
        )
    return [*(each.table for each in end.tables), *end.without, *end.unstated]


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return a ZIP file with these files by their paths."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return whole.getvalue()


def _age(then_ms: int | None, now_ms: int) -> int | None:
    return None if then_ms is None else max(0, now_ms - then_ms)
