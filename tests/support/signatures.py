"""Arguments of operators as their authors have written them: Airflow wraps what makes a task."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

REQUIRED = inspect.Parameter.empty


def arguments_of(operator: Callable[..., Any]) -> dict[str, Any]:
    """Keyword arguments with their defaults, ``REQUIRED`` for those without one."""
    made: Any = operator.__init__
    parameters = inspect.signature(inspect.unwrap(made)).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
