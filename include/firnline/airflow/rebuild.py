"""The rebuild of a lost log as the work of a DAG. ``dags/rebuild.py`` creates the DAGs."""

from __future__ import annotations

from firnline.airflow.work import InTaskWork
from firnline.operations.operation import Plan
from firnline.operations.rebuild.options import RebuildOptions
from firnline.operations.registry import REBUILD


class RebuildWork(InTaskWork[RebuildOptions]):
    """Writes a log from parts and transactions."""

    about = REBUILD

    def is_idle(self, plan: Plan) -> bool:  # noqa: ARG002 - as the base class
        """Return False: a table of which nothing is left must fail, which the work itself does."""
        return False
