"""Interrupts as a value: one that a test does not expect would end the whole run of pytest."""

from __future__ import annotations

from collections.abc import Callable


def is_interrupted(act: Callable[[], object]) -> bool:
    """Whether an act ends with a KeyboardInterrupt."""
    try:
        act()
    except KeyboardInterrupt:
        return True
    return False
