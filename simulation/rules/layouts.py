"""Rules of moved rows, filled statistics and stated digests that can be switched off."""

# ruff: noqa: SLF001 - breaking what is private is what this module is for

from __future__ import annotations

import dataclasses
from typing import Any

from firnline.operations import kernel_tasks
from firnline.operations.analyze.plan import Lacking
from firnline.operations.repartition import run as repartition
from simulation.rules.breaking import Mutation, put


def _sources_stay() -> None:
    real = repartition._change

    def change(*given: Any) -> Any:
        return dataclasses.replace(real(*given), replaces=())

    put(repartition, "_change", change)


def _missing_is_null() -> None:
    def stats_from(part: Any, facts: Any) -> Any:
        return dict.fromkeys(part.columns.values(), (None, None, facts.rows))

    Lacking.stats_from = stats_from  # type: ignore[assignment,method-assign] # the point of it


def _digests_of_former_names() -> None:
    put(kernel_tasks, "digest_of", lambda _, marker: marker.g)


LAYOUTS = {
    "a move leaves the parts that it has read": Mutation(_sources_stay, 16),
    "bounds that markers lack are null": Mutation(_missing_is_null, 23),
    "digests hold for columns that have other names now": Mutation(_digests_of_former_names, 62),
}
