"""Rules of mirrors, each of which can be switched off."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from firnline.mirror import changes
from firnline.mirror.delta import expiry, publish
from firnline.operations.cleanup import run as cleanup
from simulation.rules.breaking import Mutation, put


def _never_waits() -> None:
    put(publish, "hold_of", lambda *_: None)
    put(publish, "parts_with_deletes", lambda _: [])


def _no_wait_for_readers() -> None:
    put(cleanup, "readers_of", lambda *_: ())


def _table_before_head() -> None:
    real, plan = publish.__dict__["read_base"], publish.__dict__["plan_next"]

    def plan_next(table: Any, **options: Any) -> Any:
        base = real(table)
        found = plan(table, **options)
        state = changes.state_of(base.snapshot)
        if state == found.state:
            return found
        difference = changes.find_difference(
            base.snapshot,
            found.position,
            lambda: publish.Seen(table, found.head).replayed.files,
            lambda _: {},
            table.paths.delta_path,
            told_ms=(1, 0),
            queried=True,
        )
        return dataclasses.replace(found, base=base, state=state, difference=difference)

    put(publish, "plan_next", plan_next)


def _same_vectors() -> None:
    real = publish.__dict__["plan_hidden_rows"]

    def plan(snapshot: Any, hiding: Any, old: Any, difference: Any) -> Any:
        ids = {snapshot.paths.delta_path(each.marker.p): each.ids for each in hiding}
        known = {
            path: msgspec.structs.replace(vector, deletes=ids.get(path, vector.deletes))
            for path, vector in old.items()
        }
        return real(snapshot, hiding, known, difference)

    put(publish, "plan_hidden_rows", plan)


def _vectors_expire_by_age() -> None:
    put(expiry, "index_of", lambda *_: {})


MIRRORS: dict[str, Mutation] = {
    "a mirror does not wait for deletes and columns": Mutation(_never_waits, 10_002),
    "clean-up does not wait for readers of a mirror": Mutation(_no_wait_for_readers, 10_009),
    "a publisher reads the table before the mirror": Mutation(_table_before_head, 10_005),
    "a vector stays as it is when a delete comes": Mutation(_same_vectors, 13_019),
    "vectors expire that versions name": Mutation(_vectors_expire_by_age, 13_143),
}
