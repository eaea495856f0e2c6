"""Rules of the fence (RFC 16), each of which can be switched off: sleepers find them."""

# ruff: noqa: SLF001 - breaking what is private is what this module is for

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from firnline.commit import append_log, transaction
from firnline.log import fence
from firnline.operations.cleanup import retention
from firnline.operations.sweep import plan as plan_sweep
from firnline.properties.in_force import Waits
from simulation.rules.breaking import Mutation, put

_EVERYTHING = 10**18


def _commits_behind_the_fence() -> None:
    real = transaction._refuse_behind_fence

    def refuse(base: Any, op: str, attempt: Any, *, rival: bool) -> None:
        real(dataclasses.replace(base, began_seq=_EVERYTHING), op, attempt, rival=rival)

    put(transaction, "_refuse_behind_fence", refuse)


def _asks_nobody_what_came_after() -> None:
    put(transaction, "has_happened", lambda *_: True)


def _sweeps_behind_nothing() -> None:
    plan_sweep.Passed.covers = lambda *_: True  # type: ignore[method-assign] # the point of it


def _acknowledges_whenever() -> None:
    put(append_log, "_refuse_late", lambda *_: None)


def _reads_what_came_too_late() -> None:
    put(fence, "behind", lambda _log: frozenset())


def _fence_waits_for_nobody() -> None:
    Waits.ended = property(lambda _self: 0)  # type: ignore[method-assign, assignment]


def _numbers_are_freed_early() -> None:
    put(retention, "TXN_KEPT", 1)
    put(retention, "TXN_AGE_MS", 0)


def _no_fence() -> None:
    for switch_off in (_commits_behind_the_fence, _sweeps_behind_nothing, _acknowledges_whenever):
        switch_off()


SLEEPERS: dict[str, Mutation] = {
    "no fence": Mutation(_no_fence, 18_012),
    "a sweep does not go by the fence": Mutation(_sweeps_behind_nothing, 18_012),
    "an append is acknowledged whenever it lands": Mutation(_acknowledges_whenever, 18_013),
    "readers take what is behind the fence": Mutation(_reads_what_came_too_late, 18_013),
    "the fence waits for nobody": Mutation(_fence_waits_for_nobody, 18_025),
    "a committer does not look after its put": Mutation(_asks_nobody_what_came_after, 18_058),
    "numbers are freed at once": Mutation(_numbers_are_freed_early, 18_148),
}

SLEEPERS_RARE: dict[str, Callable[[], None]] = {
    "a committer does not go by the fence of its base": _commits_behind_the_fence,
}
"""For these there is the exhaustive model (``simulation.model``)."""
