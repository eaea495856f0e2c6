"""Judges the objects that nothing names, each by its footer, its age and the history."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from firnline.errors import UsageError
from firnline.log import dated
from firnline.log.records import Marker
from firnline.operations.rebuild.elsewhere import Elsewhere
from firnline.operations.rebuild.names import Names
from firnline.parquet.footers import FooterFacts
from firnline.parquet.part import PartMetadata
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.store.base import ObjectMeta

_SLACK_MS = 3_600_000
"""Allowed difference between the clocks of writers, on top of the times to live."""


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

    def refuse_idle(self, keys: Collection[str]) -> None:
        """Raise UsageError for a glob that matches none of the table's objects and named parts."""
        for option, globs in (("--include", self.include), ("--exclude", self.exclude)):
            for glob in globs:
                if not any(_matches(key, (glob,)) for key in keys):
                    raise UsageError(
                        f"{option} {glob!r} matches no object of the table",
                        next_step="see their keys with --dry-run; nothing was written",
                    )


def _matches(key: str, globs: Iterable[str]) -> bool:
    name = key.rpartition("/")[2]
    return any(fnmatchcase(key, glob) or fnmatchcase(name, glob) for glob in globs)


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
    now_ms: int = 0
    """Wall clock, unix ms."""
    named: int = 0
    """Newest transaction that any object of the table names."""
    last: int = 0
    """The last number in use before a downgrade; 0 without one."""
    lost: str = ""
    """Evidence that transactions are lost (``gone.lost_history``); empty if none is."""
    deletes: frozenset[str] = frozenset()
    """Ids of the delete records that log and transactions hold."""
    fence: int = 0
    """Transaction before which every append had ended (``log.fence``); 0 without one."""

    def doubts(self, live: Marker) -> bool:
        """Return True if a lost transaction may have deleted from a part, dropped or replaced it.

        What was written after the newest one that anything names is not older than any of them.
        """
        return bool(self.lost) and (not self.named or (live.q or 0) < self.named)


@dataclass(frozen=True, slots=True)
class Judge:
    """Says of each object that nothing names whether it goes in, stays out or is asked about."""

    history: History
    objects: Mapping[str, ObjectMeta]
    paths: TablePaths
    settings: TableSettings
    choice: Choice
    copies: Mapping[str, str]
    names: Names
    elsewhere: Elsewhere

    def verdict(self, facts: FooterFacts, meta: ObjectMeta) -> tuple[str, str]:
        """Return (live, ask or out; the reason)."""
        if facts.error is not None:
            return "out", facts.error
        erased = self.elsewhere.erase_of(facts.key)
        if erased is not None:
            # Not even with --include: what is certified stays gone.
            return "out", erased.reason
        if self.choice.excludes(facts.key):
            return "out", "is excluded by --exclude"
        if facts.key in self.elsewhere.prepared:
            # Not even with --include: rows that nobody has agreed to must not come by a glob.
            change = self.elsewhere.prepared[facts.key]
            return "out", f"belongs to prepared change {change}, which was never committed"
        part = self.names.own(facts)
        elsewhere = self._asked_elsewhere(facts) if part is None else None
        if part is not None and not part.append:
            verdict, reason = self._replacement(part, facts)
        elif elsewhere is not None:
            verdict, reason = "ask", elsewhere
        else:
            verdict, reason = self._addition(part, meta)
        if verdict == "live" and self.history.lost:
            verdict, reason = self._beside_erases(facts, part) or (verdict, reason)
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

    def _beside_erases(
        self, facts: FooterFacts, part: PartMetadata | None
    ) -> tuple[str, str] | None:
        """Ask about a part that may hold rows of an erase whose transaction is lost."""
        planned = self.elsewhere.planned_for(facts.key)
        if planned is not None:
            return (
                "ask",
                f"was to be replaced by erase {planned}, and nobody knows any more if it was",
            )
        q, applied = (part.q, part.d) if part is not None else (0, ())
        for erase, parts in self.elsewhere.erases:
            known = self.history.deletes.union(applied).issuperset(erase.deletes)
            before = erase.replaced is not None and q < erase.replaced.seq
            if before and not known and not parts.is_clean(facts.key):
                return "ask", (
                    f"is older than erase {erase.id}, whose record is lost: it may hold rows of "
                    "its keys"
                )
        return None

    def _replacement(self, part: PartMetadata, facts: FooterFacts) -> tuple[str, str]:
        """Judge a part that a merge, rewrite or delete wrote, and that no transaction names."""
        history = self.history
        sources = [history.parts.get(key) for key in facts.inputs]
        alive = [m for m in sources if m is not None and m.tmb is None]
        if any(m.p not in self.objects for m in alive):
            return "ask", f"was written by a {part.writer} whose inputs are gone"
        if history.lost:
            return "ask", (
                f"was written by a {part.writer}, and the transactions are lost that would say "
                "whether it was committed"
            )
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
        began = (
            part.o[0]
            if part is not None
            else dated.begun_by(meta.key, meta.modified_ms, self.history.now_ms)
        )
        if part is not None and part.q < self.history.fence:
            return "ask", (
                f"was written by an append that began before transaction {self.history.fence}, the "
                "fence, and no transaction names it: it landed too late to count, or never"
            )
        who = "an append" if part is not None else "another client (or an import)"
        latest = began + self.settings.append.ttl + self.settings.commit_ttl + _SLACK_MS
        if self.history.newest and latest < self.history.newest_at:
            return "ask", (
                f"was written by {who} so long before transaction {self.history.newest} that this "
                "would name it, had it ever been published: unless the log was lost earlier than "
                "that, it is a left-over"
            )
        return "live", f"was written by {who} and no transaction names it yet"
