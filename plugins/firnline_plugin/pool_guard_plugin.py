"""Registers firnline with Airflow where its package is not installed but on the path.

An installed package registers itself by its entry point ``airflow.plugins``, and Airflow warns of a
plugin that comes twice.
"""

from __future__ import annotations

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="firnline"):
    from firnline.airflow.plugin import FirnlinePlugin as FirnlinePlugin  # noqa: PLC0414 - Airflow looks for it
