"""Rules of prepared changes, each of which can be switched off."""

from __future__ import annotations

from typing import Any

import msgspec

from firnline.operations.prepared import expiry, objects
from simulation.rules.breaking import Mutation, put


def _swept_like_others() -> None:
    expiry.Held.parts = property(lambda _self: frozenset())  # type: ignore[method-assign, assignment]


def _no_decision() -> None:
    real = objects.decide

    def decide(table: Any, change: str, verdict: Any, run: Any, **how: Any) -> Any:
        found = real(table, change, verdict, run, **how)
        return msgspec.structs.replace(found, verdict=verdict)

    put(objects, "decide", decide)


PREPARED: dict[str, Mutation] = {
    "a sweep takes prepared parts for orphans": Mutation(_swept_like_others, 14_111),
    "a discard does not ask whether a commit has begun": Mutation(_no_decision, 14_047),
}
