"""Spark: ``firnline.spark.frame(spark, "events")`` is a table as a data frame."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firnline.spark.frame import frame

__all__ = ["frame"]

# Type checkers do not see it, as in the package above.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:  # noqa: ANN401 -- whatever the name stands for
        if name not in __all__:
            raise AttributeError(f"module 'firnline.spark' has no attribute {name!r}")
        return getattr(import_module("firnline.spark.frame"), name)
