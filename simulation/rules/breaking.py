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
    """Replaces what keeps the rule, for the rest of this process."""
    seed: int
    """One that finds it: played by `make test`, so that a product without the rule fails."""


def put(module: types.ModuleType, name: str, value: Any) -> None:
    """Replace a function of a module; unknown names are mistakes."""
    if name not in module.__dict__:
        raise AttributeError(f"{module.__name__} has no {name}")
    module.__dict__[name] = value
