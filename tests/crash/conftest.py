"""Sweeps run users' queries at hundreds of points."""

from __future__ import annotations

from tests.support.query_server import forked_queries, query_server

__all__ = ["forked_queries", "query_server"]
