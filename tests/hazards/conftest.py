"""What keeps tests of hazards quick."""

from __future__ import annotations

from tests.support.one_duckdb import one_duckdb, shared_duckdb

__all__ = ["one_duckdb", "shared_duckdb"]
