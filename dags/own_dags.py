"""DAGs of one table each, for the tables that ask for them or have a schedule (``own_dags``).

Airflow ends a file that takes too long. With hundreds of these DAGs put copies in the place of this
file that share the tables: ``own_dags_1_of_4.py`` to ``own_dags_4_of_4.py``.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.making import make_of_single_tables

HERE = Path(__file__).resolve()

make_of_single_tables(HERE.parent.parent / "spark_jobs", HERE)
