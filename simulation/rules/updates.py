"""Rules of updates, each of which can be switched off."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from firnline.commit import transaction
from firnline.operations.update import run as update
from simulation.rules.breaking import Mutation, put


def _newer_deletes_are_ignored() -> None:
    put(transaction, "refuse_newer_deletes", lambda *_: None)


def _new_values_are_not_looked_at() -> None:
    real = transaction.__dict__["refuse_newer_deletes"]

    def refuse(snapshot: Any, change: Any, planned: int) -> None:
        real(snapshot, dataclasses.replace(change, adds=()), planned)

    put(transaction, "refuse_newer_deletes", refuse)


def _other_tries_are_unknown() -> None:
    put(update, "of_other_tries", lambda *_, **__: [])


def _earlier_tries_alone() -> None:
    real = update.__dict__["of_other_tries"]

    def found(table: Any, run: Any, first_try: int, op: str, *, again: bool) -> Any:
        if run.try_number <= first_try:
            return []
        return real(table, run, first_try, op, again=again)

    put(update, "of_other_tries", found)


UPDATES: dict[str, Mutation] = {
    "new values are asked what a newer delete meant": Mutation(_newer_deletes_are_ignored, 21_032),
    "a retry updates again": Mutation(_other_tries_are_unknown, 21_019),
    "a first try looks for no retry": Mutation(_earlier_tries_alone, 21_143),
}

UPDATES_RARE: dict[str, Callable[[], None]] = {
    "newer deletes are looked for in old values alone": _new_values_are_not_looked_at,
}
