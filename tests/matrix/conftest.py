"""The cells of the matrix run by themselves, each in an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_ALONE = {"test_bounds_cell.py", "test_image_cell.py", "test_spark_cell.py"}
"""Modules that only cells run.

What they state of the versions of the lock, the tests of other folders state in more depth; and a
process has one session of Spark, which other tests share.
"""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave such a module out of a run of other tests, whose root is the repository."""
    return True if collection_path.name in _ALONE and config.rootpath != _HERE else None
