"""Rules of primary keys, restores and clusters, each of which can be switched off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from firnline.commit import fold, invariants, keys, transaction
from firnline.errors import ObjectNotFoundError
from firnline.log import schema_lines
from firnline.log.checkpoint import Checkpoint
from firnline.operations import committer
from firnline.operations import kernel_tasks as merge_tasks
from firnline.operations.rebuild import plan as rebuild
from firnline.operations.restore import plan as plan_restore
from firnline.operations.restore import run as restore
from firnline.operations.restore.plan import Copied
from firnline.state.snapshot import Snapshot
from simulation.rules.breaking import Mutation, put


def _tombstones_go_at_once() -> None:
    def forgettable(
        _snapshot: Any, settings: Any, _partition: str, parts: Any, _now_ms: int
    ) -> Any:
        return frozenset(m.p for m in parts if settings.deleted is not None)

    put(keys, "forgettable", forgettable)


def _tombstones_go_by_age() -> None:
    def forgettable(_snapshot: Any, settings: Any, _partition: str, parts: Any, now_ms: int) -> Any:
        age = settings.append.ttl + settings.cleanup.grace
        old = (m.p for m in parts if m.order()[1] <= now_ms - age)
        return frozenset(old if settings.deleted is not None else ())

    put(keys, "forgettable", forgettable)


def _no_late_appends() -> None:
    put(transaction, "_refuse_late_append", lambda _table, _base, _change: None)
    put(transaction, "refuse_between", lambda *_: None)


def _restore_beside_restore() -> None:
    put(restore, "_brought_since", lambda _snapshot, _plan: None)


def _restore_past_the_grace() -> None:
    def copy(table: Any, _snapshot: Any, plan: Any, markers: Any, _tell: Any) -> None:
        for copied, marker in zip(plan.copies, markers, strict=True):
            try:
                table.store.copy(copied.source.p, marker.p)
            except ObjectNotFoundError:
                continue

    put(plan_restore, "refuse_deleted", lambda *_: None)
    put(restore, "_copy", copy)


def _restore_undoes_no_delete() -> None:
    put(plan_restore, "_undone", lambda *_: [])


def _copies_are_new() -> None:
    real = Copied.marker

    def marker(self: Copied, snapshot: Any, key: str) -> Any:
        return msgspec.structs.replace(real(self, snapshot, key), o=None)

    Copied.marker = marker  # type: ignore[method-assign] # the point of it


def _rebuild_takes_copies() -> None:
    put(rebuild, "copies_of", lambda *_: {})


def _no_look_beneath() -> None:
    put(transaction, "refuse_beneath", lambda *_: None)


def _restore_forgets_erases() -> None:
    put(plan_restore, "_needed", lambda *_: ())


def _restore_knows_pending_deletes_only() -> None:
    put(plan_restore, "_remembering", lambda snapshot, _since: snapshot)


def _may_match_is_enough() -> None:
    def hidden_whole(self: Snapshot, marker: Any, deletes: Any) -> bool:  # noqa: ARG001 - a method
        return bool(deletes)

    Snapshot.hidden_whole = hidden_whole  # type: ignore[method-assign] # the point of it


def _first_output_only() -> None:
    real = committer.__dict__["change_of"]

    def change_of(snapshot: Any, done: Any, **more: Any) -> Any:
        cut = [(g, msgspec.structs.replace(r, parts=r.parts[:1])) for g, r in done]
        return real(snapshot, cut, **more)

    put(committer, "change_of", change_of)
    put(invariants, "rows_are_accounted_for", lambda _counts: None)


def _checkpoint_without_deletes() -> None:
    real = Checkpoint.content

    def content(self: Checkpoint) -> Any:
        return msgspec.structs.replace(real(self), deletes=[])

    Checkpoint.content = content  # type: ignore[method-assign] # the point of it


def _columns_as_they_lie() -> None:
    put(merge_tasks, "sources_of", lambda _snapshot, _marker: ())


def _changes_go_by_age() -> None:
    put(fold, "_change_is_over", lambda *_: True)


def _names_are_for_ever() -> None:
    put(schema_lines, "line_sequence", lambda _name, _first, _times: 0)


MORE: dict[str, Mutation] = {
    "key tombstones are forgotten at once": Mutation(_tombstones_go_at_once, 5),
    "key tombstones are forgotten while older parts stay": Mutation(_tombstones_go_by_age, 91),
    "nobody looks for late appends": Mutation(_no_late_appends, 1149),
    "a restore asks for no rival": Mutation(_restore_beside_restore, 88),
    "a restore goes back past the grace": Mutation(_restore_past_the_grace, 5),
    "a restore leaves deletes in force": Mutation(_restore_undoes_no_delete, 72),
    "copies of a restore count as inserted now": Mutation(_copies_are_new, 19),
    "a restore knows pending deletes only": Mutation(_restore_knows_pending_deletes_only, 4300),
    "a rebuild takes copies for appended parts": Mutation(_rebuild_takes_copies, 33),
    "a merge reads columns as they lie in the parts": Mutation(_columns_as_they_lie, 144),
    "records of changed columns go by age alone": Mutation(_changes_go_by_age, 175),
    "a change of columns is for all schema lines": Mutation(_names_are_for_ever, 36),
    "a part goes unread when deletes may match": Mutation(_may_match_is_enough, 3),
    "one output of a group is enough": Mutation(_first_output_only, 119),
    "a checkpoint forgets deletes": Mutation(_checkpoint_without_deletes, 3),
}
"""Name of the broken rule -> function that breaks it, and a seed that finds it."""

MORE_RARE: dict[str, Callable[[], None]] = {
    "a restore leaves records of erases to others": _restore_forgets_erases,
    "nobody looks for what a restore put beneath": _no_look_beneath,
}
"""See ``catalogue.RARE``."""
