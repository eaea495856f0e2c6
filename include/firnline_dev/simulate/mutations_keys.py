"""Rules of primary keys, restores and clusters, each of which can be switched off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from firnline.errors import ObjectNotFoundError
from firnline.operations import restore
from firnline.plan import keys, rebuild
from firnline.plan import restore as plan_restore
from firnline.plan.restore import Copied
from firnline_dev.simulate.breaking import put


def _tombstones_go_at_once() -> None:
    def forgettable(_snapshot: Any, settings: Any, group: Any, _now_ms: int) -> frozenset[str]:
        return frozenset(m.p for m in group.parts if settings.deleted is not None)

    put(keys, "forgettable", forgettable)


def _tombstones_go_by_age() -> None:
    def forgettable(_snapshot: Any, settings: Any, group: Any, now_ms: int) -> frozenset[str]:
        age = settings.append.ttl + settings.cleanup.grace
        old = (m.p for m in group.parts if m.order()[1] <= now_ms - age)
        return frozenset(old if settings.deleted is not None else ())

    put(keys, "forgettable", forgettable)


def _restore_beside_restore() -> None:
    put(restore, "_brought_since", lambda _snapshot, _plan: None)


def _restore_past_the_grace() -> None:
    def copy(table: Any, _snapshot: Any, plan: Any, markers: Any, _tell: Any) -> None:
        for copied, marker in zip(plan.copies, markers, strict=True):
            try:
                table.store.copy(copied.source.p, marker.p)
            except ObjectNotFoundError:
                continue

    put(plan_restore, "_refuse_deleted", lambda *_: None)
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


MORE: dict[str, Callable[[], None]] = {
    "key tombstones are forgotten at once": _tombstones_go_at_once,
    "key tombstones are forgotten while older parts stay": _tombstones_go_by_age,
    "a restore asks for no rival": _restore_beside_restore,
    "a restore goes back past the grace": _restore_past_the_grace,
    "a restore leaves deletes in force": _restore_undoes_no_delete,
    "copies of a restore count as inserted now": _copies_are_new,
    "a rebuild takes copies for appended parts": _rebuild_takes_copies,
}
"""Name of the rule that is broken -> what breaks it."""
