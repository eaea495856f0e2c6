"""Hazards of rewrites run users' queries."""

from __future__ import annotations

from tests.support.query_server import forked_queries, query_server

__all__ = ["forked_queries", "query_server"]
