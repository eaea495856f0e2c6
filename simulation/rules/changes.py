"""Rules of the feed of changes, each of which can be switched off."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from firnline.read import steps
from simulation.rules.breaking import Mutation


def _records_do_not_count() -> None:
    steps._Walk._touched = lambda *_: {}  # type: ignore[method-assign] # noqa: SLF001 - the point


def _appended_after_the_transaction() -> None:
    real = steps._Walk.append  # noqa: SLF001 - the point of it

    def append(self: Any, sequence: int | None, parts: Any, upto: int) -> Any:
        return real(self, sequence, parts, upto if sequence is None else sequence)

    steps._Walk.append = append  # type: ignore[method-assign] # noqa: SLF001 - the point of it


def _seen_is_forgotten() -> None:
    real = steps.plan_steps

    def plan_steps(known: Any, start: Any, end: Any, options: Any) -> Any:
        return real(known, dataclasses.replace(start, seen=frozenset()), end, options)

    steps.plan_steps = plan_steps


def _order_is_kept() -> None:
    steps._Walk._reordered = lambda *_: {}  # type: ignore[method-assign] # noqa: SLF001 - the point


CHANGES: dict[str, Mutation] = {
    "changes leave out what deletes hide in parts that stay": Mutation(_records_do_not_count, 89),
    "changes bring an append after its transaction": Mutation(_appended_after_the_transaction, 33),
    "changes bring what their position names once more": Mutation(_seen_is_forgotten, 5),
}

CHANGES_RARE: dict[str, Callable[[], None]] = {
    "changes take a merge for silent whatever landed in between": _order_is_kept,
}
"""Rules without a known seed."""
