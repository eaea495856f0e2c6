"""Troubles that last, such as a store that is down: told when they come, daily, and at their end.

A planner that failed each hour for the same reason would be looked at by nobody.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firnline.units import DAY_MS

if TYPE_CHECKING:
    from firnline.operations.fleet.need import Unreadable
    from firnline.settings.files import UnreadFile

KNOWN = "firnline.fleet.troubles"
"""Variable of Airflow that holds the known ones: trouble -> unix ms at which it was told last."""
SETTINGS = "the settings in "
PLANNER = "the planner"
"""Subject of its silence, of which it cannot tell itself (``firnline.airflow.silence``)."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A subject that has something wrong, and the kind of it."""

    subject: str
    """``table flights``, ``the mirror of flights``, ``the settings in tables.yaml`` or ``the
    planner``."""
    kind: str
    """Another kind is another trouble: a store that is down hides no damage."""

    @property
    def key(self) -> str:
        """Return it as text."""
        return f"{self.subject}: {self.kind}"


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences to the troubles that were told before."""

    new: tuple[str, ...]
    """Subjects of those to tell: unknown before, or told more than a day ago."""
    over: tuple[str, ...]
    """Subjects that had one and have none any more."""
    known: Mapping[str, int]
    """All that there are now -> unix ms at which they were told last."""


def troubles_of(
    unreadable: Iterable[Unreadable], unpublished: Iterable[str], unread: Iterable[UnreadFile]
) -> list[Trouble]:
    """Return the troubles that a run of the planner has found.

    Args:
        unreadable: tables that could not be read, or whose merge could not be planned.
        unpublished: names of tables whose mirror could not be published.
        unread: files of the settings that do not read.
    """
    found = [Trouble(f"table {each.table}", each.kind) for each in unreadable]
    found += [Trouble(f"the mirror of {name}", "not published") for name in unpublished]
    found += [
        Trouble(f"{SETTINGS}{each.path.name}", f"{zlib.crc32(str(each.error).encode()):08x}")
        for each in unread
    ]
    return found


def compare(
    before: Mapping[str, int], now: Collection[Trouble], looked: Collection[str], now_ms: int
) -> Changes:
    """Return what has changed.

    Args:
        before: ``known`` of the run before.
        now: what there is.
        looked: names of the tables that were looked at; of others nothing is known.
        now_ms: unix ms.
    """
    current, subjects = {each.key for each in now}, {each.subject for each in now}
    about = {PLANNER, *(f"table {name}" for name in looked)}
    about |= {subject for subject in map(_subject, before) if subject.startswith(SETTINGS)}
    # The mirror of a table that could not be read was not looked at.
    about |= {f"the mirror of {name}" for name in looked if f"table {name}" not in subjects}
    over = {_subject(key) for key in before} & about - subjects
    told = {
        key: told_ms
        for key, told_ms in before.items()
        if key in current or _subject(key) not in about | subjects
    }
    new = [each for each in now if now_ms - told.get(each.key, 0) >= DAY_MS]
    return Changes(
        tuple(each.subject for each in new),
        tuple(sorted(over)),
        {**told, **{each.key: now_ms for each in new}},
    )


def _subject(key: str) -> str:
    return key.rpartition(": ")[0]
