"""Checks of what clients of log version 1 have merged: parts without statistics and digests.

Their merge may take its columns from its first input and leave out those that only others have. The
columns of the inputs are in their footers as long as their objects are there, and in the lines of
the log files that brought them; the digests of their rows are in their markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from firnline.log import foreign_merges
from firnline.log.foreign_merges import ForeignMerge
from firnline.operations.verify.findings import Findings
from firnline.operations.verify.footers import columns_held
from firnline.parquet.footers import FooterFacts, FooterTask
from firnline.state.snapshot import Snapshot
from firnline.state.twins import NEXT_STEP, sentence
from firnline.types.digests import parse_digest, total
from firnline.types.sql import fold_name

Footers = Callable[[Sequence[FooterTask]], Iterable[FooterFacts]]


def check_doubled(findings: Findings, snapshot: Snapshot, table: str) -> None:
    """Report rows that may be there twice (``Snapshot.refuse_doubled``)."""
    for older, younger in snapshot.twins:
        said = f"{sentence(older)}, so nobody reads or commits"
        findings.add("error", "txn-twice", younger, said, NEXT_STEP)
    for each in snapshot.doubled:
        findings.add(
            "error", "v1-merged-dead-part", each.part,
            f"was merged by a client of log version 1 ({each.log}) out of {each.of}, among others, "
            "which had been replaced or dropped: its rows would be there again, so nobody reads or "
            "commits", "stop that client's merges, and take this one back with `firnline rebuild "
            f"{table}`",
        )  # fmt: skip


def merged_parts(snapshot: Snapshot) -> dict[str, ForeignMerge]:
    """Return the live parts that such clients have made, as far as log files tell."""
    merges = foreign_merges.find(snapshot.listing, snapshot.contents).merges
    return {path: merge for merge in merges for path in merge.made if path in snapshot.live}


@dataclass(frozen=True, slots=True)
class Merged:
    """The rows that a merged part should have."""

    digest: str
    """Of the rows of its inputs, by their markers."""
    columns: frozenset[str]
    """The columns that count, by ``fold_name``: a client also writes those of the path."""


def rows_of_inputs(snapshot: Snapshot, merges: Mapping[str, ForeignMerge]) -> dict[str, Merged]:
    """Return the rows of the parts of merges whose inputs all state a digest.

    None after a change of the schema: a digest is of the columns as they were.
    """
    merged: dict[str, Merged] = {}
    columns = frozenset(map(fold_name, snapshot.schema))
    for path, merge in () if snapshot.changes else merges.items():
        inputs = [snapshot.parts.get(name) for name in merge.inputs]
        digests = [None if m is None else parse_digest(m.g) for m in inputs]
        known = [digest for digest in digests if digest is not None]
        if len(merge.made) == 1 and len(known) == len(digests):
            merged[path] = Merged(str(total(known)), columns)
    return merged


def check_columns(
    findings: Findings,
    snapshot: Snapshot,
    merges: Mapping[str, ForeignMerge],
    columns: Mapping[str, frozenset[str]],
    footers: Footers,
) -> None:
    """Report merged parts without a column that one of their inputs has.

    Requests: a GET for each dead input of a part that lacks a column of the table.

    Args:
        findings: takes what is found.
        snapshot: the state, with every log file.
        merges: of ``merged_parts``.
        columns: what these parts hold, by ``fold_name``, as far as their footers could be read.
        footers: reads footers.
    """
    table = {fold_name(name): name for name in snapshot.schema}
    lacking = {path: table.keys() - held for path, held in columns.items() if path in merges}
    lacking = {path: names for path, names in lacking.items() if names}
    if not lacking:
        return
    wanted = {name for path in lacking for name in merges[path].inputs}
    held_by = dict(_held(snapshot, wanted, footers))
    for path, names in sorted(lacking.items()):
        _tell(findings, snapshot, merges[path], path, names, held_by)


def _held(
    snapshot: Snapshot, paths: Iterable[str], footers: Footers
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield part -> its columns, of those whose objects are there."""
    known = sorted(path for path in paths if path in snapshot.parts)
    for facts in footers([FooterTask(path, snapshot.parts[path].b) for path in known]):
        if not facts.gone and facts.error is None:
            own = snapshot.columns_of(snapshot.parts[facts.key])
            yield facts.key, columns_held(own, facts)


def _tell(
    findings: Findings,
    snapshot: Snapshot,
    merge: ForeignMerge,
    path: str,
    names: Iterable[str],
    held_by: Mapping[str, frozenset[str]],
) -> None:
    for name in sorted(names):
        source = next((p for p in sorted(merge.inputs) if name in held_by.get(p, ())), None)
        if source is not None:
            findings.add(
                "error", "v1-lost-columns", path,
                f"lacks column {name!r}, which {source} has: a client of log version 1 "
                f"({merge.log}) has merged it without it",
                "append these rows again from that part before clean-up deletes it, and let "
                "`firnline merge` do the merges",
            )  # fmt: skip
        elif _was_stated(snapshot, [p for p in merge.inputs if p not in held_by], name):
            findings.add(
                "warning", "v1-lost-columns", path,
                f"lacks column {name!r}, which a log file states for one of the parts that a "
                f"client of log version 1 ({merge.log}) has merged into it; their objects are gone",
                "compare its rows with where they came from",
            )  # fmt: skip


def _was_stated(snapshot: Snapshot, paths: Sequence[str], name: str) -> bool:
    """Return True if an append with one of these parts states a column, or a marker its bounds."""
    gone = set(paths)
    if any(
        name in map(fold_name, snapshot.stats_of(marker))
        for marker in map(snapshot.parts.get, paths)
        if marker is not None
    ):
        return True
    return any(
        name in map(fold_name, snapshot.line(key))
        for key, content in snapshot.contents.items()
        if snapshot.listing[key].name.kind == "append"
        and any(marker.p in gone for marker in content.markers)
    )
