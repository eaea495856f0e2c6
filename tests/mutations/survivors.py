"""Conditions that may be switched off without anything going wrong, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Survivor:
    """A condition that no test misses, and need not."""

    module: str
    switch: str
    """As ``tests.mutations.conditions`` prints it."""
    why: str


SURVIVORS: tuple[Survivor, ...] = ()
