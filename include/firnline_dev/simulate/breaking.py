"""Replacing functions of the product in this process."""

from __future__ import annotations

import types
from typing import Any


def put(module: types.ModuleType, name: str, value: Any) -> None:
    """Replace a function of a module; unknown names are mistakes."""
    if name not in module.__dict__:
        raise AttributeError(f"{module.__name__} has no {name}")
    module.__dict__[name] = value
