"""Rules of legal holds, each of which can be switched off."""

from __future__ import annotations

from firnline.commit import transaction
from firnline.operations.cleanup import plan as plan_cleanup
from firnline.state.holds import Held
from simulation.rules.breaking import Mutation, put


def _not_asked_for() -> None:
    put(transaction, "refuse_held", lambda *_: None)


def _taken_by_deletes() -> None:
    Held.keeping = lambda self, condition: condition  # type: ignore[method-assign] # noqa: ARG005


def _dead_are_not_held() -> None:
    put(plan_cleanup, "dead_under_hold", lambda *_: frozenset())


def _dated_by_clocks() -> None:
    put(transaction, "_dated", lambda properties, *_: properties)


HOLDS: dict[str, Mutation] = {
    "a commit asks for no legal hold": Mutation(_not_asked_for, 20_011),
    "deletes take rows of legal holds": Mutation(_taken_by_deletes, 20_014),
    "clean-up deletes what died before a legal hold": Mutation(_dead_are_not_held, 20_008),
    "a legal hold has the time of its plan": Mutation(_dated_by_clocks, 20_073),
}
