"""What Airflow gives a task, as far as ours ask for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from firnline.airflow.work import Work


class XComs:
    """A task instance: its tries, and what was pushed and can be pulled."""

    def __init__(self, earlier: Mapping[str, Any]) -> None:
        self.try_number, self.max_tries = 1, 0
        self.task = SimpleNamespace(retries=0)
        self.earlier = earlier
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(
        self, task_ids: str, key: str = "return_value", dag_id: str = "", run_id: str = ""
    ) -> Any:
        own = task_ids if key == "return_value" else f"{task_ids}/{key}"
        return self.earlier.get(f"{dag_id} {run_id} {own}" if dag_id else own)


class OutletEvents:
    """Events by the name of the asset: until Airflow 3.1 an asset is not hashable."""

    def __init__(self) -> None:
        self._by_name: dict[str, SimpleNamespace] = defaultdict(SimpleNamespace)

    def __getitem__(self, asset: Any) -> SimpleNamespace:
        return self._by_name[asset.name]

    def __contains__(self, asset: Any) -> bool:
        return asset.name in self._by_name


def run_context(
    work: Work[Any],
    conf: Mapping[str, Any] | None = None,
    run_type: str = "manual",
    table: str = "t",
    **earlier: Any,
) -> Any:
    """The context of a run of this work's DAG.

    Args:
        work: its params' defaults are those of the run.
        conf: what it was triggered with.
        run_type: ``manual``, ``scheduled`` and so on; the run id is ``<run_type>__1``.
        table: the DAG is ``<operation>__<table>``.
        earlier: XCom of earlier tasks by task id; under another key as ``task/key``, of another
            run as ``dag run task``.
    """
    defaults = {name: param.value for name, param in work.all_params().items()}
    return {
        "dag": SimpleNamespace(dag_id=f"{work.operation}__{table}"),
        "dag_run": SimpleNamespace(
            conf=dict(conf) if conf else None, run_type=run_type, triggering_user_name="ana"
        ),
        "params": {**defaults, **(conf or {})},
        "run_id": f"{run_type}__1",
        "ti": XComs(earlier),
        "outlet_events": OutletEvents(),
        "triggering_asset_events": {},
    }
