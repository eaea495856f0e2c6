"""Tells the DAGs of this package from others by their tag.

An id is not enough: other teams may call theirs ``merge__dims``. Tasks' processes load this
module with the listeners, so it imports nothing until it is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firnline.operations.dag_ids import TAG, is_like_ours

if TYPE_CHECKING:
    from sqlalchemy import Select


def is_ours(dag_id: str) -> bool:
    """Return True for a DAG of this package, as Airflow's database has it.

    No query for an id that none of ours has. Through a connection of its own: Airflow's session
    must not be opened within listeners.
    """
    return is_like_ours(dag_id) and has_tag(dag_id)


def has_tag(dag_id: str) -> bool:
    """Return True if the DAG has our tag."""
    from airflow import settings
    from sqlalchemy import column

    engine: Any = settings.engine
    query = tagged().where(column("dag_id") == dag_id)
    with engine.connect() as connection:
        return connection.execute(query).first() is not None


def tagged() -> Select[Any]:
    """Select the ids of the DAGs that have our tag."""
    from sqlalchemy import column, select, table

    tags = table("dag_tag", column("name"), column("dag_id")).c
    return select(tags.dag_id).where(tags.name == TAG)
