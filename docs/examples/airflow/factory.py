"""firnline's own DAGs, with queues, callbacks and a schedule: in the place of the installed file.

`firnline init --airflow` writes files that say `dag_factory(...)` without any of it.
"""

from __future__ import annotations

from typing import Any

from firnline.airflow import dag_factory


def page_somebody(context: Any) -> None:
    """Tell whoever is on duty."""
    print(context["dag_run"].run_id, "failed")


dag_factory(
    file=__file__,
    # Of all DAGs.
    queue="maintenance",
    owner="data-platform",
    tags=["lake"],
    on_failure_callback=page_somebody,
    default_args={"max_active_tis_per_dag": 8},
    # Of an operation.
    operations={"merge": {"queue": "large", "priority_weight": 10}},
    # Of a table, and of an operation of it.
    tables={"events": {"retries": 5, "operations": {"verify": {"schedule": "0 4 * * 6"}}}},
)
