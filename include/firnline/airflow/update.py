"""Updating rows where a condition is true: the work of ``graphs.update_where``."""

from __future__ import annotations

from firnline.airflow.prepared import PreparedWork
from firnline.operations.options import UpdateOptions
from firnline.operations.registry import UPDATE


class UpdateWork(PreparedWork[UpdateOptions]):
    """Gives the rows for which a condition is true new values."""

    about = UPDATE
