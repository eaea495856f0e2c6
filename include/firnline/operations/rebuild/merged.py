"""Objects of other clients that may be merges of parts which are here, too.

A client of log version 1 writes no footer of ours, and its merge looks like its append. With the
log file of its merge the knowledge is lost which parts it replaced: both would be live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firnline.log.records import Marker
from firnline.operations.rebuild.names import Names
from firnline.parquet.footers import FooterFacts
from firnline.paths import TablePaths
from firnline.store.base import ObjectMeta

Verdict = tuple[FooterFacts, str, str]
"""The footer of an object that nothing names; live, ask or out; the reason."""


def ask_about_merges(
    verdicts: Sequence[Verdict],
    named: Sequence[Marker],
    objects: Mapping[str, ObjectMeta],
    paths: TablePaths,
    names: Names,
    included: Sequence[str],
) -> list[Verdict]:
    """Return the verdicts; of what may be a merge of other live parts somebody has to decide.

    A merge has at least two inputs, which are older and in its partition.

    Args:
        verdicts: on the objects that nothing names.
        named: live parts that log or transactions name.
        objects: everything under ``_data/``, by key.
        paths: of the table.
        names: former names of the table, which tell parts of ours.
        included: keys that a person has included.
    """
    live = [marker.p for marker in named] + [
        f.key for f, verdict, _ in verdicts if verdict == "live"
    ]
    folders: dict[str, list[int]] = {}
    for key in live:
        folders.setdefault(paths.parse_part(key).partition, []).append(objects[key].modified_ms)
    judged: list[Verdict] = []
    for facts, verdict, reason in verdicts:
        asked = verdict == "live" and facts.key not in included and _is_foreign(names, facts)
        at = objects[facts.key].modified_ms
        older = sum(other < at for other in folders.get(paths.parse_part(facts.key).partition, ()))
        if not asked or older < 2:
            judged.append((facts, verdict, reason))
            continue
        doubt = (
            f"was written by another client, and may be a merge of some of the {older} older parts "
            "of its partition, whose rows would then be there twice"
        )
        judged.append((facts, "ask", doubt))
    return judged


def _is_foreign(names: Names, facts: FooterFacts) -> bool:
    """Return True for an object that no writer of this table wrote.

    A library may carry a footer of ours on into what it makes of the rows: then their number is
    another.
    """
    own = names.own(facts)
    return own is None or own.rows != facts.rows
