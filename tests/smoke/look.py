"""Print what Airflow finds here as one line of JSON: DAGs, what cannot be stored, plugin, policy.

A program of its own, because Airflow reads its configuration once in a process. It needs nothing
but Airflow and firnline.
"""

from __future__ import annotations

import json
import os
from typing import Any

from airflow import plugins_manager, settings

from firnline.airflow.versions import DagBag, DagSerialization


def look() -> dict[str, Any]:
    """Return what there is, by what is looked for."""
    bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    problems, deadlines = {}, {}
    for name, dag in bag.dags.items():
        try:
            data = DagSerialization.to_dict(dag)
            DagSerialization.from_dict(data)
            deadlines[name] = bool(data["dag"].get("deadline"))
        except Exception as error:  # noqa: BLE001 - what cannot be stored is the answer
            problems[name] = repr(error)
    plugins: Any = plugins_manager
    plugins.ensure_plugins_loaded()
    errors = getattr(plugins, "get_import_errors", lambda: plugins.import_errors)()
    made: Any = getattr(settings, "get_policy_plugin_manager", None)
    manager: Any = made() if made else getattr(settings, "POLICY_PLUGIN_MANAGER")  # noqa: B009 - 3.0
    hooks = manager.hook.task_instance_mutation_hook.get_hookimpls()
    mine = (each for each in plugins.get_plugin_info() if each["name"] == "firnline")
    return {
        "dags": sorted(bag.dags),
        "docs": {name: dag.doc_md for name, dag in bag.dags.items()},
        "errors": {str(key): str(value) for key, value in bag.import_errors.items()},
        "problems": problems,
        "deadlines": deadlines,
        "plugins": {str(key): str(value) for key, value in errors.items()},
        "plugin": {key: str(value) for key, value in next(mine, {}).items()},
        "hooks": [each.plugin_name for each in hooks],
    }


if __name__ == "__main__":
    print("SEEN " + json.dumps(look()))
