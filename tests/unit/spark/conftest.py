"""Unit tests of the Spark side run with any version of Spark."""

from __future__ import annotations

from tests.support.spark_versions import pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]
