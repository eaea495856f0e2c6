"""Rows into parts; called, the package is the function ``firnline.append``.

The name of this package is also that of a function of the Python interface, and whichever is
imported first would hide the other: so both are one object.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - typed in firnline.api
        """Append rows or files: see ``firnline.api.append``."""
        return import_module("firnline.api").append(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
