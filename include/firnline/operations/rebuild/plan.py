"""Plans the log of a rebuild: pure; docs/format.md, "Rebuild", has the rules and the reasons.

What a transaction or a log file names is certain. Of an object that none of them names only its
footer, its age and the history say whether it was ever in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from firnline.log import dated
from firnline.log.records import Marker, sort_json, stats_json
from firnline.operations.rebuild.copies import copies_of
from firnline.operations.rebuild.elsewhere import NOWHERE, Elsewhere, Erased
from firnline.operations.rebuild.judge import Choice, History, Judge
from firnline.operations.rebuild.merged import ask_about_merges
from firnline.operations.rebuild.names import names_of
from firnline.operations.rebuild.siblings import StandsFor, stand_for
from firnline.parquet.footers import FooterFacts
from firnline.parquet.part import PartMetadata
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.store.base import ObjectMeta


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
    buried: tuple[str, ...] = ()
    """Parts that are live by log and transactions, and from which included ones were made."""
    lost: str = ""
    """Evidence that the history is lost, or a part of it: what that removed may come back."""
    doubtful: int = 0
    """Live parts that transactions which are lost may have deleted from, dropped or replaced."""

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
            "history_lost": self.lost,
            "doubtful": self.doubtful,
        }


def plan_rebuild(
    history: History,
    objects: Mapping[str, ObjectMeta],
    footers: Sequence[FooterFacts],
    paths: TablePaths,
    settings: TableSettings,
    choice: Choice,
    elsewhere: Elsewhere = NOWHERE,
) -> RebuildPlan:
    """Decide on the contents of the log file.

    Args:
        history: what is left of log and transactions.
        objects: everything under ``_data/``, by key.
        footers: of the objects that the history does not name.
        paths: of the table.
        settings: of the table: times to live.
        choice: what the user decided.
        elsewhere: what other objects of the table name.
    """
    named = history.parts
    copies = copies_of(named.values(), footers)
    names = names_of(paths, footers, [objects, named])
    judge = Judge(history, objects, paths, settings, choice, copies, names, elsewhere)
    first = [(facts, *judge.verdict(facts, objects[facts.key])) for facts in footers]
    included = [facts.key for facts in footers if choice.includes(facts.key)]
    there = [m for m in named.values() if m.tmb is None and m.p in objects]
    verdicts = ask_about_merges(first, there, objects, paths, names, included)
    rows = {m.p: m.n for m in named.values()} | {f.key: f.rows for f in footers if not f.error}
    replaced = stand_for((facts for facts, verdict, _ in verdicts if verdict == "live"), rows)
    certain = _Named.of(history, objects, choice, elsewhere, replaced)
    piles: dict[str, list[Judged]] = {"live": [], "ask": certain.asked, "out": certain.out}
    added: list[Marker] = []
    for facts, first_verdict, first_reason in verdicts:
        verdict, reason = first_verdict, first_reason
        if verdict == "live" and facts.key in replaced:
            verdict, reason = _replaced(replaced[facts.key])
        piles[verdict].append(Judged(facts.key, facts.rows, facts.bytes, reason))
        if verdict == "live":
            marker = _marker(facts, names.own(facts), objects[facts.key], history.now_ms)
            added.append(marker)
    live = (*certain.live, *_whole_appends(added, footers))
    return RebuildPlan(
        live=live,
        dead=tuple(certain.dead),
        named=len(certain.live),
        found=tuple(piles["live"]),
        undecided=tuple(piles["ask"]),
        left_out=tuple(piles["out"]),
        missing=tuple(sorted(m.p for m in named.values() if m.tmb is None and m.p not in objects)),
        purged=_horizon(history, certain.dead, objects),
        buried=tuple(certain.buried),
        lost=history.lost,
        doubtful=sum(map(history.doubts, live)),
    )


def _replaced(inclusion: StandsFor) -> tuple[str, str]:
    """Return verdict and reason for a part from which an included one was made."""
    return ("ask", inclusion.doubt) if inclusion.doubt else ("out", _made_into(inclusion))


def _made_into(inclusion: StandsFor) -> str:
    return f"was made into {inclusion.output}, which is included"


@dataclass(slots=True)
class _Named:
    """The parts that log or transactions name, sorted."""

    live: list[Marker] = field(default_factory=list)
    dead: list[Marker] = field(default_factory=list)
    asked: list[Judged] = field(default_factory=list)
    out: list[Judged] = field(default_factory=list)
    buried: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        history: History,
        objects: Mapping[str, ObjectMeta],
        choice: Choice,
        elsewhere: Elsewhere,
        replaced: Mapping[str, StandsFor],
    ) -> Self:
        named = cls()
        for marker in history.parts.values():
            if marker.tmb is not None:
                if _is_kept(marker, history, objects):
                    named.dead.append(marker)
            elif marker.p in objects:
                named._alive(marker, choice, elsewhere.erase_of(marker.p), replaced.get(marker.p))
        return named

    def _alive(
        self,
        marker: Marker,
        choice: Choice,
        erase: Erased | None,
        replaced: StandsFor | None,
    ) -> None:
        """Place a part that is live by all that log and transactions say."""

        def judged(reason: str) -> Judged:
            return Judged(marker.p, marker.n or 0, marker.b, reason)

        if erase is not None:
            # Its transaction is lost. Whatever anybody decides, what is certified stays gone.
            self.dead.append(msgspec.structs.replace(marker, tmb=max(erase.t, marker.t)))
            self.out.append(judged(erase.reason))
        elif replaced is None:
            self.live.append(marker)
        elif replaced.doubt and not choice.excludes(marker.p):
            self.asked.append(judged(replaced.doubt))
        else:
            self.buried.append(marker.p)
            self.out.append(judged(_made_into(replaced)))


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


def _marker(facts: FooterFacts, part: PartMetadata | None, meta: ObjectMeta, now_ms: int) -> Marker:
    return Marker(
        p=facts.key,
        b=meta.size,
        t=dated.begun_by(meta.key, meta.modified_ms, now_ms),
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
