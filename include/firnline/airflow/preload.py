"""Import what the DAG files need once, in Airflow's DAG processor, before it forks for each file.

Airflow parses each file again and again, in a fork that imports what the file names, and what
making and storing its DAGs then imports, and reads the settings: nine tenths of what a file costs
whose tables have no DAGs of their own. Airflow itself does the same with its own modules
(``[dag_processor] parsing_pre_import_modules``).
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from firnline.extras import explained

_LOG = logging.getLogger("firnline.parsing")
_COMMAND = "dag-processor"
GRAPHS = Path(__file__).parent / "graphs"
MODULES = (
    "firnline.airflow.making",
    *(f"firnline.airflow.graphs.{path.stem}" for path in GRAPHS.glob("[a-z]*.py")),
)
"""Modules that the DAG files import."""


def before_forks(argv: Sequence[str] | None = None) -> None:
    """In a DAG processor, import the modules right before its first fork; else do nothing.

    Not at once: the policy that asks for it is loaded while Airflow is only half imported.
    """
    if _COMMAND in (sys.argv if argv is None else argv)[1:2]:
        os.register_at_fork(before=_BeforeFork())


class _BeforeFork:
    """Imports the modules when it is called first; each time, reads the settings if they changed.

    What fails is logged: the parser goes on, and each fork does it itself.
    """

    def __init__(self) -> None:
        self._done = False

    def __call__(self) -> None:
        try:
            if not self._done:
                self._done = True
                _import()
            _read()
        except Exception as error:  # noqa: BLE001 - logged; each fork does it itself
            known = explained(error)
            _LOG.error(
                "what the DAG files need could not be read beforehand: %s",
                known,
                exc_info=error if known is error else None,
            )


def _import() -> None:
    for name in MODULES:
        importlib.import_module(name)
    _store_one()
    # What is there now is never collected, so no fork copies the pages of its counters.
    gc.freeze()


def _read() -> None:
    """Know the settings, which the forks read again only if they change."""
    from firnline.airflow.settings import current_settings
    from firnline.errors import SettingsError

    try:
        current_settings()
    except SettingsError:
        return  # an import error of each file tells of it


def _store_one() -> None:
    """Make a DAG as the files do, and the JSON that Airflow stores: both import more."""
    from airflow.sdk import DAG, Asset, AssetAny, BaseOperator

    from firnline.airflow.backfills import BackfillOnly
    from firnline.airflow.versions import (
        AssetOrTimeSchedule,
        CronTriggerTimetable,
        DagSerialization,
    )

    assets = [Asset(f"firnline.{scheme}", f"{scheme}://lake/t") for scheme in ("s3", "file")]
    clock = CronTriggerTimetable("@hourly", timezone="UTC")
    schedules = (
        AssetOrTimeSchedule(timetable=clock, assets=AssetAny(*assets)),
        BackfillOnly("@daily", timezone="UTC"),
    )
    for schedule in schedules:
        with DAG("firnline", schedule=schedule, start_date=datetime(2000, 1, 1, tzinfo=UTC)) as dag:
            BaseOperator(task_id="one", outlets=assets)
        DagSerialization.to_dict(dag)
