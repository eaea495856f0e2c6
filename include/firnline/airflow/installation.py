"""List the pools, connections and notifiers of an Airflow installation, which the DAGs need.

``python -m firnline.airflow.installation {"connections": [...], "notifiers": [...]}`` prints them
as JSON. `firnline doctor` runs it as a process of its own, since Airflow logs, opens its database
and takes seconds to import.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

VERBOSE = "AIRFLOW__LOGGING__LOGGING_LEVEL"


def look(connections: Sequence[str], notifiers: Sequence[str] = ()) -> dict[str, object]:
    """Return ``slots`` (of each pool), ``missing`` (ids that no connection has), and ``silent``.

    The latter has the notifiers that cannot be imported, each with the reason.

    Raises whatever the metadata database raises.
    """
    from airflow.models import Connection

    from firnline.airflow.pool_guard import read_slots
    from firnline.airflow.versions import AirflowNotFoundException

    missing = []
    for name in connections:
        try:
            Connection.get_connection_from_secrets(name)
        except AirflowNotFoundException:
            missing.append(name)
    silent = {path: why for path in notifiers if (why := why_silent(path)) is not None}
    return {"slots": read_slots(), "missing": missing, "silent": silent}


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
