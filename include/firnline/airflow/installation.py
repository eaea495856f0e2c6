"""List what the DAGs need of an Airflow installation: pools, connections, notifiers, platforms.

``python -m firnline.airflow.installation {"connections": [...], "notifiers": [...]}`` prints what
it finds as JSON. `firnline doctor` runs it as a process of its own, since Airflow logs, opens its
database and takes seconds to import.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firnline.settings.launchers import Launcher, SparkSettings

VERBOSE = "AIRFLOW__LOGGING__LOGGING_LEVEL"
_ANSWER_S = 40.0
"""Seconds that all platforms together have for their answers."""
_NOTHING = "firnline-doctor-"
"""Beginning of a name that no job has."""
_Trouble = tuple[str, str]
"""Message and next step."""


def look(
    connections: Sequence[str],
    notifiers: Sequence[str] = (),
    platforms: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, object]:
    """Look at what the DAGs need.

    Args:
        connections: ids.
        notifiers: as ``alerts.notifier`` names them.
        platforms: settings ``spark`` by a name of the caller's; each platform is asked for its jobs
            on the way, a page of them.

    Returns:
        ``slots`` of each pool; ``missing``, the ids that no connection has; ``silent``, the
        notifiers that cannot be imported, each with the reason; ``deaf``, the platforms that do not
        answer, each with message and next step.

    Raises whatever the metadata database raises.
    """
    from firnline.airflow.pool_guard import read_slots

    missing = [name for name in connections if _connection(name) is None]
    silent = {path: why for path in notifiers if (why := why_silent(path)) is not None}
    deaf = _deaf(platforms or {})
    return {"slots": read_slots(), "missing": missing, "silent": silent, "deaf": deaf}


def _connection(name: str) -> str | None:
    """Return a connection as JSON; None if there is none."""
    from airflow.models import Connection

    from firnline.airflow.versions import AirflowNotFoundException

    try:
        found: str = Connection.get_connection_from_secrets(name).as_json()
    except AirflowNotFoundException:
        return None
    return found


def _deaf(platforms: Mapping[str, Mapping[str, Any]]) -> dict[str, _Trouble]:
    """Return the platforms that do not answer in time, each with message and next step."""
    from firnline.airflow.platforms import account_of
    from firnline.settings.launchers import SparkSettings

    late = (f"it did not answer within {_ANSWER_S:.0f} seconds", "see that this machine reaches it")
    answers: dict[str, _Trouble | None] = dict.fromkeys(platforms, late)
    threads = []
    for name, given in platforms.items():
        spark = SparkSettings.model_validate(given)
        launcher = spark.chosen
        assert launcher is not None  # the caller asks for tables on platforms
        account = account_of(spark, launcher)
        known = None if account is None else _connection(account)
        if known is not None:
            # Hooks ask the API server of a task, which is not there; this they read anywhere.
            os.environ[f"AIRFLOW_CONN_{str(account).upper()}"] = known
        # A thread that is late ends with the process.
        thread = Thread(target=_ask, args=(name, spark, launcher, answers), daemon=True)
        threads.append(thread)
        thread.start()
    for thread in threads:
        thread.join(_ANSWER_S / len(threads))
    return {name: answer for name, answer in answers.items() if answer is not None}


def _ask(
    name: str, spark: SparkSettings, launcher: Launcher, answers: dict[str, _Trouble | None]
) -> None:
    """Put the answer of a platform: None, or message and next step."""
    from firnline.airflow.platforms import open_platform
    from firnline.errors import FirnlineError

    try:
        open_platform(spark, launcher).find(_NOTHING)
        answers[name] = None
    except FirnlineError as error:
        answers[name] = error.message, error.next_step
    except Exception as error:  # noqa: BLE001 - one platform does not end the checks of the others
        answers[name] = f"{type(error).__name__}: {error}", "see docs/deploy.md, Platforms"


def why_silent(notifier: str) -> str | None:
    """Return why a notifier cannot be called; None if it can."""
    from firnline.airflow.alerts import import_notifier

    try:
        import_notifier(notifier)
    except Exception as error:  # noqa: BLE001 - the module is not ours, and the reason is told
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """Print what ``look`` finds."""
    os.environ.setdefault(VERBOSE, "ERROR")
    sys.stdout.write(json.dumps(look(**json.loads(sys.argv[1]))) + "\n")


if __name__ == "__main__":
    main()
