"""Take back merges of other clients that met parts which were dead (``log.foreign_merges``).

Nothing fences such a merge, so its part may hold rows that a transaction had replaced, deleted,
dropped or erased. The part is buried. Of its inputs those that nothing else has buried are copied
under new names, since a dead part never comes back, with their own sequence and deletes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import msgspec

from firnline.log.foreign_merges import Doubled, ForeignMerges
from firnline.log.records import Marker
from firnline.operations.rebuild.judge import Choice
from firnline.operations.rebuild.plan import Judged, RebuildPlan
from firnline.store.base import ObjectMeta
from firnline.store.transfer import each
from firnline.table import Table


@dataclass(frozen=True, slots=True)
class Remains:
    """What decides on the parts of such merges."""

    merges: ForeignMerges
    parts: Mapping[str, Marker]
    """Every part that log and transactions name, in its final state."""
    objects: Mapping[str, ObjectMeta]
    choice: Choice
    sequence_of: Callable[[Marker], int]


def without_doubled(plan: RebuildPlan, doubled: Sequence[Doubled], remains: Remains) -> RebuildPlan:
    """Return the plan of a rebuild that takes back the merges that made these parts."""
    if not doubled:
        return plan
    asked, out, copied = [], [], dict[str, Judged]()
    for each_part in doubled:
        inputs = sorted(remains.merges.inputs_only_here(each_part.part))
        gone = [path for path in inputs if path not in remains.objects]
        if remains.choice.includes(each_part.part):
            asked_for = "is included by --include, with the rows that it has of dead parts"
            copied[each_part.part] = _judged(remains, each_part.part, asked_for)
            continue
        if gone and not remains.choice.excludes(each_part.part):
            reason = (
                f"has rows of {each_part.of}, which was dead when it was made, and those of "
                f"{gone[0]}, whose object is gone: --exclude loses these, --include keeps both"
            )
            asked.append(_judged(remains, each_part.part, reason))
            continue
        reason = f"has rows of {each_part.of}, which was dead when another client merged it"
        out.append(_judged(remains, each_part.part, reason))
        back = f"was merged into {each_part.part}, which is taken back"
        copied |= {p: _judged(remains, p, back) for p in inputs if p not in gone}
    buried = tuple(remains.parts[each_part.part] for each_part in doubled)
    names = {marker.p for marker in buried}
    return replace(
        plan,
        live=tuple(marker for marker in plan.live if marker.p not in names),
        missing=tuple(path for path in plan.missing if path not in names),
        named=plan.named - sum(marker.p in names for marker in plan.live),
        undecided=(*plan.undecided, *asked),
        left_out=(*plan.left_out, *out),
        copied=tuple(copied.values()),
        copies=tuple(_source(remains, path) for path in copied),
        taken_back=buried,
        wrong_since=min(each_part.since for each_part in doubled),
    )


def _judged(remains: Remains, path: str, reason: str) -> Judged:
    marker = remains.parts[path]
    return Judged(path, marker.n or 0, marker.b, reason)


def _source(remains: Remains, path: str) -> Marker:
    """Return the marker of a part as its copy will have it, but for name and time."""
    old = remains.parts[path]
    order = old.t if old.o is None else old.o
    return msgspec.structs.replace(old, tmb=None, q=remains.sequence_of(old), o=order)


def copy_inputs(table: Table, plan: RebuildPlan) -> tuple[Marker, ...]:
    """Copy the parts of a plan under new names, in the order of the old ones.

    What a run leaves that dies, or that cannot commit, is swept. Requests: a PUT for each.

    Raises ObjectNotFoundError: clean-up has deleted one since.
    """
    now, seen = table.clock.now_ms(), Counter[tuple[int, int]]()
    names: dict[str, str] = {}
    for marker in sorted(plan.copies, key=lambda marker: table.paths.parse_part(marker.p).name):
        part, order = table.paths.parse_part(marker.p), marker.order()
        # Of parts that were inserted at one time only their names tell which came later.
        names[marker.p] = table.paths.data_part(part.partition, table.ids.uuid7(now + seen[order]))
        seen[order] += 1
    with closing(each(list(names), lambda old: table.store.copy(old, names[old]))) as copied:
        for _ in copied:
            pass
    return tuple(msgspec.structs.replace(m, p=names[m.p]) for m in plan.copies)
