"""In which order the components of a local Airflow start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from firnline.errors import EnvironmentFaultError
from tools import airflow_stack
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.processes import Programs

HEALTHY = ("metadatabase", "scheduler", "dag_processor", "triggerer")


class Recorded(Programs):
    """Programs that are only written down."""

    def __init__(self, events: list[str], dies: str | None = None) -> None:
        super().__init__("mark", Path("/none"))
        self.events = events
        self.dies = dies

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.events.append(name)

    def dead(self) -> str | None:
        return self.dies if self.dies in self.events else None


class Api:
    """An API server that does not answer at first."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.answers = iter([{}, {}, {"metadatabase": "healthy"}])

    def health(self) -> dict[str, str]:
        found = next(self.answers, dict.fromkeys(HEALTHY, "healthy"))
        self.events.append("answer" if found else "silence")
        return found

    def set_pools(self, pools: Mapping[str, Any]) -> None:
        self.events.append(f"pools {', '.join(pools)}")


def started(
    home: Path, monkeypatch: pytest.MonkeyPatch, dies: str | None = None
) -> tuple[AirflowStack, list[str]]:
    events: list[str] = []
    monkeypatch.setattr(airflow_stack, "AirflowApi", lambda _: Api(events))
    monkeypatch.setattr(airflow_stack, "copy_database", lambda _: True)
    (home / "pools.json").write_text(json.dumps({"one": {}, "two": {}}))
    options = StackOptions(pools=home / "pools.json", triggerer=True, schedulers=2)
    stack = AirflowStack(home, options)
    stack.programs = Recorded(events, dies)
    return stack.start(), events


@pytest.mark.long
def test_nothing_that_runs_tasks_starts_before_the_api_answers_and_pools_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack, events = started(tmp_path, monkeypatch)
    assert events == ["api-server", "dag-processor"]
    stack.wait_ready()
    assert events[2:] == [
        *("silence", "silence", "answer"),
        "pools one, two",
        *("scheduler", "triggerer", "scheduler-2"),
        "answer",
    ]


def test_an_api_server_that_ends_is_named_and_no_scheduler_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack, events = started(tmp_path, monkeypatch, dies="api-server")
    with pytest.raises(EnvironmentFaultError, match="api-server ended"):
        stack.wait_ready()
    assert "scheduler" not in events
