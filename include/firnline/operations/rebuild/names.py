"""The facts in a part's footer, believed where a writer of this very table wrote it.

A footer names the table by its key prefix of then. A table that was renamed or copied since has
parts under a former name, and what those say of sequences and inputs counts as much. Parts of a
table that is really another one got here as copies under new names (an import), or lie in a folder
that somebody keeps a table in: their sequences are those of another history.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from firnline.parquet.footers import FooterFacts
from firnline.parquet.part import PartMetadata
from firnline.paths import TablePaths


@dataclass(frozen=True, slots=True)
class Names:
    """The names under which this table has been written."""

    paths: TablePaths
    former: frozenset[str] = frozenset()

    def own(self, facts: FooterFacts) -> PartMetadata | None:
        """Return the footer's facts, if a writer of this table wrote it, under any of its names."""
        part = facts.part
        if part is None or part.table == self.paths.prefix:
            return part
        if self.paths.may_be_another_tables(facts.key):
            return None
        return part if part.table in self.former else None


def names_of(
    paths: TablePaths, footers: Sequence[FooterFacts], known: Sequence[Container[str]]
) -> Names:
    """Return the former names: a part whose inputs lie beside it was made of them here.

    Names of parts are UUIDs, and copies get new ones: no part of another table finds here what it
    was made of, unless its whole folder was put here.

    Args:
        paths: of the table.
        footers: of the objects that nobody names.
        known: keys of objects, and of parts that log and transactions name.
    """
    former = {
        facts.part.table
        for facts in footers
        if facts.part is not None
        and facts.part.table != paths.prefix
        and not paths.may_be_another_tables(facts.key)
        and any(key in keys for key in facts.inputs for keys in known)
    }
    return Names(paths, frozenset(former))
