"""Plans the log of a rebuild: pure; docs/format.md, "Rebuild", has the rules and the reasons.

What a transaction or a log file names is certain. Of an object that none of them names only its
footer, its age and the history say whether it was ever in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

import msgspec

from firnline.ids import uuid7_time_ms
from firnline.log.records import Marker, sort_json, stats_json
from firnline.operations.rebuild.copies import copies_of
from firnline.operations.rebuild.merged import ask_about_merges
from firnline.operations.rebuild.names import Names, names_of
from firnline.parquet.footers import FooterFacts
from firnline.parquet.part import PartMetadata
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.store.base import ObjectMeta


@dataclass(frozen=True, slots=True)
class Choice:
    """The user's decisions on objects that nothing names: globs over keys or file names."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def includes(self, key: str) -> bool:
        """Return True if an undecided object goes in."""
        return _matches(key, self.include)

    def excludes(self, key: str) -> bool:
        """Return True if it stays out."""
        return _matches(key, self.exclude)


def _matches(key: str, globs: Iterable[str]) -> bool:
    name = key.rpartition("/")[2]
    return any(fnmatchcase(key, glob) or fnmatchcase(name, glob) for glob in globs)


SLACK_MS = 3_600_000
"""Allowed difference between the clocks of writers, on top of the times to live."""


@dataclass(frozen=True, slots=True)
class History:
    """The remains of the log and of ``_txn/``."""

    parts: Mapping[str, Marker]
    """Every part that log and transactions name, in its final state."""
    newest: int
    """Newest transaction; 0 without one."""
    newest_t: int
    """Time of the newest transaction, unix ms."""
    newest_at: int
    """Time at which the newest transaction took effect; not its date, where that is far ahead."""
    first: int | None
    """The first of the transactions up to the newest of which none is missing; None without one."""
    first_t: int
    purged: int
    listed_alive: frozenset[str] = frozenset()
    """Parts that an existing log file lists alive, folded or not."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An object that nothing names, and the decision on it."""

    key: str
    rows: int
    bytes: int
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"key": self.key, "rows": self.rows, "bytes": self.bytes, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """The markers of the log file to write, and all decisions."""

    live: tuple[Marker, ...]
    dead: tuple[Marker, ...]
    named: int
    """Live parts that a transaction or log file names."""
    found: tuple[Judged, ...]
    """Live parts known from their footers alone."""
    undecided: tuple[Judged, ...]
    """Objects that a person has to decide on; nothing is written while there is any."""
    left_out: tuple[Judged, ...]
    missing: tuple[str, ...]
    """Live parts by the transactions whose objects are gone: those rows are lost."""
    purged: int
    taken_back: tuple[Marker, ...] = ()
    """Live parts of merges of other clients that are taken back (``taking_back``)."""
    copied: tuple[Judged, ...] = ()
    """Parts that were merged into them: they are copied under new names."""
    copies: tuple[Marker, ...] = ()
    """Their markers as those of the copies, but for name and time."""
    wrong_since: int = 0
    """Time since when the parts that are taken back had rows of dead ones, unix ms."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if there is no part to name."""
        return not (self.live or self.dead or self.copies)

    @property
    def rows(self) -> int | None:
        """Rows of the live parts; None when a part does not state them."""
        rows = [m.n for m in (*self.live, *self.copies)]
        return None if None in rows else sum(n for n in rows if n is not None)

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, and every object that was judged."""
        return {
            "parts": len(self.live) + len(self.copies),
            "dead_parts": len(self.dead),
            "named": self.named,
            "rows": self.rows,
            "bytes": sum(m.b for m in (*self.live, *self.copies)),
            "found": [j.to_json() for j in self.found],
            "undecided": [j.to_json() for j in self.undecided],
            "left_out": [j.to_json() for j in self.left_out],
            "copied": [j.to_json() for j in self.copied],
            "missing": list(self.missing),
        }


def plan_rebuild(
    history: History,
    objects: Mapping[str, ObjectMeta],
    footers: Sequence[FooterFacts],
    paths: TablePaths,
    settings: TableSettings,
    choice: Choice,
    prepared: Mapping[str, str] = MappingProxyType({}),
) -> RebuildPlan:
    """Decide on the contents of the log file.

    Args:
        history: what is left of log and transactions.
        objects: everything under ``_data/``, by key.
        footers: of the objects that the history does not name.
        paths: of the table.
        settings: of the table: times to live.
        choice: what the user decided.
        prepared: the change by part, of changes on whose commit nobody has decided.
    """
    named = history.parts
    alive = [m for m in named.values() if m.tmb is None]
    live = [m for m in alive if m.p in objects]
    dead = [m for m in named.values() if m.tmb is not None and _is_kept(m, history, objects)]
    copies = copies_of(named.values(), footers)
    names = names_of(paths, footers, [objects, named])
    judge = _Judge(history, objects, paths, settings, choice, copies, names, prepared)
    first = [(facts, *judge.verdict(facts, objects[facts.key])) for facts in footers]
    included = [facts.key for facts in footers if choice.includes(facts.key)]
    verdicts = ask_about_merges(first, live, objects, paths, names, included)
    replaced = _replaced_by_included(verdicts)
    piles: dict[str, list[Judged]] = {"live": [], "ask": [], "out": []}
    added: list[Marker] = []
    for facts, first_verdict, first_reason in verdicts:
        verdict, reason = first_verdict, first_reason
        if verdict == "live" and facts.key in replaced:
            verdict, reason = "out", f"was made into {replaced[facts.key]}, which is included"
        piles[verdict].append(Judged(facts.key, facts.rows, facts.bytes, reason))
        if verdict == "live":
            added.append(_marker(facts, names.own(facts), objects[facts.key]))
    return RebuildPlan(
        live=tuple(live + _whole_appends(added, footers)),
        dead=tuple(dead),
        named=len(live),
        found=tuple(piles["live"]),
        undecided=tuple(piles["ask"]),
        left_out=tuple(piles["out"]),
        missing=tuple(sorted(m.p for m in alive if m.p not in objects)),
        purged=_horizon(history, dead, objects),
    )


def _is_kept(marker: Marker, history: History, objects: Mapping[str, ObjectMeta]) -> bool:
    """Return True unless a dead part's object is confirmed deleted, and gone.

    Also True while a log file lists the part alive: for clients that read all log files, as those
    of version 1 do, it would come back.
    """
    kept = marker.p in objects or (marker.tmb or 0) > history.purged
    return kept or marker.p in history.listed_alive


def _horizon(history: History, dead: Sequence[Marker], objects: Mapping[str, ObjectMeta]) -> int:
    # Before the oldest transaction that is left, parts unknown today may have died: states
    # of that time cannot be told any more. But nothing that still exists may count as deleted.
    if history.first in (1, None):
        return history.purged
    staying = [m.tmb - 1 for m in dead if m.tmb is not None and m.p in objects]
    return max(history.purged, min([history.first_t - 1, *staying]))


@dataclass(frozen=True, slots=True)
class _Judge:
    history: History
    objects: Mapping[str, ObjectMeta]
    paths: TablePaths
    settings: TableSettings
    choice: Choice
    copies: Mapping[str, str]
    names: Names
    prepared: Mapping[str, str]

    def verdict(self, facts: FooterFacts, meta: ObjectMeta) -> tuple[str, str]:
        """Return (live, ask or out; the reason)."""
        if facts.error is not None:
            return "out", facts.error
        if self.choice.excludes(facts.key):
            return "out", "is excluded by --exclude"
        if facts.key in self.prepared:
            # Not even with --include: rows that nobody has agreed to must not come by a glob.
            change = self.prepared[facts.key]
            return "out", f"belongs to prepared change {change}, which was never committed"
        part = self.names.own(facts)
        elsewhere = self._asked_elsewhere(facts) if part is None else None
        if part is not None and not part.append:
            verdict, reason = self._replacement(part, facts)
        elif elsewhere is not None:
            verdict, reason = "ask", elsewhere
        else:
            verdict, reason = self._addition(part, meta)
        if verdict == "ask" and self.choice.includes(facts.key):
            return "live", "is included by --include"
        return verdict, reason

    def _asked_elsewhere(self, facts: FooterFacts) -> str | None:
        """Return why a person has to decide on a merge's part for a table of another name.

        Nothing that it was made from is here. Of a table that was renamed it may be what a run
        has left that never committed.
        """
        part = facts.part
        if part is None or part.append or self.paths.may_be_another_tables(facts.key):
            return None
        return (
            f"was written by a {part.writer} for a table called {part.table or '(no prefix)'}: it "
            "is live if it was imported, or if this table was called so and the run committed"
        )

    def _replacement(self, part: PartMetadata, facts: FooterFacts) -> tuple[str, str]:
        """Judge a part that a merge, rewrite or delete wrote, and that no transaction names."""
        history = self.history
        sources = [history.parts.get(key) for key in facts.inputs]
        alive = [m for m in sources if m is not None and m.tmb is None]
        if any(m.p not in self.objects for m in alive):
            return "ask", f"was written by a {part.writer} whose inputs are gone"
        uncommitted = f"belongs to a {part.writer} that was never committed"
        if alive:
            return "out", uncommitted
        if history.first is not None:
            later = [m for m in sources if m is not None and (m.tmb or 0) >= history.first_t]
            # Its transaction would have had a number above q, and all of those are here.
            if later or part.q >= history.first - 1:
                return "out", uncommitted
        return "ask", (
            f"was written by a {part.writer} before the oldest transaction that is left: it is "
            "either live or a left-over"
        )

    def _addition(self, part: PartMetadata | None, meta: ObjectMeta) -> tuple[str, str]:
        """Judge a part of an append, or of a client that writes no footer of ours."""
        if self.paths.may_be_another_tables(meta.key):
            return "ask", "lies where somebody may keep another table"
        if meta.key in self.copies:
            return "ask", f"looks like a copy of {self.copies[meta.key]} that a restore has left"
        began = part.o[0] if part is not None else time_of(meta)
        who = "an append" if part is not None else "another client (or an import)"
        latest = began + self.settings.append.ttl + self.settings.commit_ttl + SLACK_MS
        if self.history.newest and latest < self.history.newest_at:
            return "ask", (
                f"was written by {who} so long before transaction {self.history.newest} that this "
                "would name it, had it ever been published: unless the log was lost earlier than "
                "that, it is a left-over"
            )
        return "live", f"was written by {who} and no transaction names it yet"


def _replaced_by_included(
    verdicts: Iterable[tuple[FooterFacts, str, str]],
) -> dict[str, str]:
    """Return part -> the included part made from it, whatever the table was called."""
    return {
        key: facts.key
        for facts, verdict, _ in verdicts
        if verdict == "live"
        for key in facts.inputs
    }


def time_of(meta: ObjectMeta) -> int:
    """Return when an object was written, by its own name, else by the store, unix ms."""
    try:
        return uuid7_time_ms(meta.key.rpartition("/")[2].removesuffix(".parquet"))
    except ValueError:
        return meta.modified_ms


def _marker(facts: FooterFacts, part: PartMetadata | None, meta: ObjectMeta) -> Marker:
    return Marker(
        p=facts.key,
        b=meta.size,
        t=time_of(meta),
        n=facts.rows,
        # Without q, the newest transaction below t: as for every client that does not state it.
        q=part.q if part is not None else None,
        d=part.d or None if part is not None else None,
        o=part.o if part is not None and part.o != (0, 0) else None,
        s=stats_json(facts.stats),
        g=part.digest or None if part is not None else None,
        k=sort_json(facts.sorted_by),
    )


def _whole_appends(markers: Sequence[Marker], footers: Sequence[FooterFacts]) -> list[Marker]:
    """Give all parts of an append one time: it became visible at once."""
    appends = {f.key: f.part.append for f in footers if f.part is not None and f.part.append}
    latest: dict[str, int] = {}
    for marker in markers:
        append = appends.get(marker.p, marker.p)
        latest[append] = max(marker.t, latest.get(append, 0))
    return [msgspec.structs.replace(m, t=latest[appends.get(m.p, m.p)]) for m in markers]


def first_of_run(numbers: Iterable[int]) -> int | None:
    """Return the number from which to the highest none is missing."""
    found: int | None = None
    for number in sorted(numbers, reverse=True):
        if found is not None and number != found - 1:
            break
        found = number
    return found
