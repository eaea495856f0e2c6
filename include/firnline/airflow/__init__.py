"""firnline in Airflow: its operators for your own DAGs, and its DAGs.

    from firnline.airflow import Merge, maintain

    load() >> Merge(table="events")
    load() >> maintain("events")

An operator is one task. Its arguments are the options of the operation, by the names of the command
line, all of them templates; besides them it takes those of a BaseOperator. The table is a name of
the settings file, and the pool of the table is the task's.

``dag_factory`` makes firnline's own DAGs, in a DAG file of a few lines.
"""

# Each name is imported when it is first used: Airflow imports parts of this package in every one of
# its processes.

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firnline.airflow.making import dag_factory
    from firnline.airflow.operators.asking import Drop, Erase, Sweep
    from firnline.airflow.operators.in_task import Cleanup, Rebuild, Restore, Ttl
    from firnline.airflow.operators.maintain import maintain
    from firnline.airflow.operators.spark import (
        Delete,
        Import,
        Merge,
        Replace,
        Rewrite,
        Update,
        Verify,
    )

__all__ = [
    "Cleanup",
    "Delete",
    "Drop",
    "Erase",
    "Import",
    "Merge",
    "Rebuild",
    "Replace",
    "Restore",
    "Rewrite",
    "Sweep",
    "Ttl",
    "Update",
    "Verify",
    "dag_factory",
    "maintain",
]

_FROM = {
    **dict.fromkeys(("Drop", "Erase", "Sweep"), "operators.asking"),
    **dict.fromkeys(("Cleanup", "Rebuild", "Restore", "Ttl"), "operators.in_task"),
    "dag_factory": "making",
    "maintain": "operators.maintain",
}
"""Name -> module below this package; all others are in that of operators with Spark."""


# Type checkers do not see it: they would take any name for one of the package.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from firnline.extras import explaining, require

        require("airflow")
        with explaining():
            from firnline.airflow.versions import refuse_old

            refuse_old("DAGs and operators")
            module = _FROM.get(name, "operators.spark")
            return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
