"""What a mutation is, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

SIMULATION = "simulate"
"""The catcher that is no test: `python -m simulation --seeds 500 --corpus`."""


@dataclass(frozen=True)
class Mutation:
    """One wrong line of the product, which `make test` has to catch."""

    name: str
    file: str
    """Path in the repository."""
    old: str
    """Text that occurs exactly once in the file."""
    new: str
    breaks: str
    """What a user would suffer, in one sentence."""
    caught_by: tuple[str, ...]
    """The part of `make test` that catches it: paths or node ids of tests, or ``SIMULATION``."""
    full: str = ""
    """Why only `make test-full` catches it, where that is so."""
    unit: bool | None = True
    """Whether tests/unit catch it: what says False is what the slower folders are for. None: nobody
    has looked (``--unit``)."""


@dataclass(frozen=True)
class Rule:
    """A rule of the format that the simulation can switch off."""

    name: str
    seed: int
    """One that finds it."""
