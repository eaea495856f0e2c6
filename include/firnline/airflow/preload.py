"""Import what the DAG files need once, in Airflow's DAG processor, before it forks for each file.

Airflow parses each file again and again, in a fork that imports what the file names: four fifths of
what a file with few tables costs. Airflow itself does the same with its own modules
(``[dag_processor] parsing_pre_import_modules``).
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence

_LOG = logging.getLogger("firnline.parsing")
_COMMAND = "dag-processor"
MODULES = (
    "firnline.airflow.dags",
    "firnline.airflow.works",
    "firnline.airflow.approvals",
    "firnline.airflow.erase",
    "firnline.airflow.fleet",
    "firnline.airflow.footers",
    "firnline.airflow.merge",
    "firnline.airflow.removal",
    "firnline.airflow.rewrite",
    "firnline.airflow.sweep",
)
"""Modules that the DAG files import. None of them reads the settings, which each fork does."""


def before_forks(argv: Sequence[str] | None = None) -> None:
    """In a DAG processor, import the modules right before its first fork; else do nothing.

    Not at once: the policy that asks for it is loaded while Airflow is only half imported.
    """
    if _COMMAND in (sys.argv if argv is None else argv)[1:2]:
        os.register_at_fork(before=_Once())


class _Once:
    """Imports the modules when it is called for the first time."""

    def __init__(self) -> None:
        self._done = False

    def __call__(self) -> None:
        if self._done:
            return
        self._done = True
        try:
            for name in MODULES:
                importlib.import_module(name)
        except Exception:  # noqa: BLE001 - logged: the parser goes on, each fork imports them
            _LOG.exception("the modules of the DAG files could not be imported beforehand")
