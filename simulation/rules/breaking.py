"""Replacing functions of the product in this process."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutation:
    """A rule that can be switched off."""

    switch_off: Callable[[], None]
    """Disables the rule for the rest of this process."""
    seed: int
    """Seed that finds the violation: `make test` plays it to prove that the rule is tested."""


def put(module: types.ModuleType, name: str, value: Any) -> None:
    """Replace a function of a module. Raises AttributeError for an unknown name."""
    if name not in module.__dict__:
        raise AttributeError(f"{module.__name__} has no {name}")
    module.__dict__[name] = value
