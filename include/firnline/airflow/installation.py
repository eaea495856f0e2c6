"""List the pools and connections of an Airflow installation, which the DAGs need.

``python -m firnline.airflow.installation ID...`` prints them as JSON. `firnline doctor` runs it as
a process of its own, since Airflow logs, opens its database and takes seconds to import.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

VERBOSE = "AIRFLOW__LOGGING__LOGGING_LEVEL"


def look(connections: Sequence[str]) -> dict[str, object]:
    """Return ``slots`` (pool -> slots) and ``missing``, the ids that no connection has.

    Raises whatever the metadata database raises.
    """
    from airflow.models import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    from firnline.airflow.pool_guard import read_slots

    missing = []
    for name in connections:
        try:
            Connection.get_connection_from_secrets(name)
        except AirflowNotFoundException:
            missing.append(name)
    return {"slots": read_slots(), "missing": missing}


def main() -> None:
    """Print what ``look`` finds."""
    os.environ.setdefault(VERBOSE, "ERROR")
    sys.stdout.write(json.dumps(look(sys.argv[1:])) + "\n")


if __name__ == "__main__":
    main()
