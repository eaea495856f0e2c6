"""The public names; each is imported when it is first used, since DAG files import this module."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firnline.append.service import Appender
    from firnline.read.changes import changes
    from firnline.read.scan import scan

__all__ = ["Appender", "changes", "scan"]

_FROM = {
    "Appender": "firnline.append.service",
    "changes": "firnline.read.changes",
    "scan": "firnline.read.scan",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
    if name not in _FROM:
        raise AttributeError(f"module 'firnline' has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)
