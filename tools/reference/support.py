"""docs/support.md: the versions beside which firnline is tested, as ``tools.matrix`` has them."""

from __future__ import annotations

from tools.matrix import CELLS, Cell
from tools.reference.markdown import code, table

_TESTS = {
    "test_airflow_cell.py": "`airflow version`, all DAGs imported and serialised, plugin, policy; "
    "a run of the DAG `merge` (each change in one of them)",
    "test_spark_cell.py": "a merge job, a round trip of the data source or of the frame",
    "tests/unit/airflow": "the unit tests of Airflow's side",
    "test_image_cell.py": "the image filled on Airflow's own packages; `astro dev pytest`",
    "test_bounds_cell.py": "append, merge, delete, scan, verify; values of each type",
}
"""Module of ``tests/matrix`` -> what it does."""


def blocks() -> dict[str, str]:
    """Return the text of each block of the page."""
    rows = [
        (
            code(cell.name),
            code(cell.packages[0]) if cell.packages else _bounds(cell),
            "{}.{}".format(*cell.python),
            cell.until,
            _TESTS[cell.test],
            _when(cell),
        )
        for cell in CELLS
    ]
    header = ("cell", "version", "Python", "other packages as of", "what runs", "when")
    return {"cells": table(header, rows)}


def _when(cell: Cell) -> str:
    if cell.units:
        return "each night; each change a third of one of them in turn"
    return "each night" if cell.nightly else "each change"


def _bounds(cell: Cell) -> str:
    return "the lowest of all requirements" if cell.lowest else "the newest of all requirements"
