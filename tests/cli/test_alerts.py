"""``firnline alerts test``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import Outcome, settings_file

Firnline = Callable[..., Outcome]


def tried(firnline: Firnline, tmp_path: Path, alerts: str, *more: str) -> Outcome:
    path = settings_file(tmp_path, f"tables: {{t: {{root: 's3://b/t', alerts: {alerts}}}}}")
    return firnline("alerts", "test", "t", *more, "--settings", path)


def test_the_notifier_is_told_what_it_would_be_of_a_run(firnline: Firnline, tmp_path: Path) -> None:
    file = tmp_path / "told"
    arguments = {"file": str(file), "word": "{{ table }} {{ reason }}: {{ sentence }}"}
    alerts = json.dumps({"notifier": "tests.support.notifier.Told", "arguments": arguments})
    done = tried(firnline, tmp_path, alerts, "--json")
    assert done.code == 0
    sentence = "this is a test of the alerts of table t: nothing has happened"
    assert done.data["told"] == {
        "dag_id": "merge",
        "run_id": "test",
        "table": "t",
        "reason": "test",
        "sentence": sentence,
        "link": "",
    }
    (line,) = file.read_text().splitlines()
    assert json.loads(line)["word"] == f"t test: {sentence}"


@pytest.mark.parametrize(
    ("alerts", "said"),
    [
        ("{}", "table t has no notifier; set alerts.notifier"),
        ("{notifier: no.such.Told}", "no.such.Told of table t failed: ModuleNotFoundError"),
        ("{notifier: json.Told}", "json.Told of table t failed: AttributeError"),
        ("{notifier: json.dumps, arguments: {x: y}}", "failed: TypeError"),
    ],
)
def test_a_notifier_that_cannot_be_called_is_one_sentence(
    alerts: str, said: str, firnline: Firnline, tmp_path: Path
) -> None:
    done = tried(firnline, tmp_path, alerts)
    assert said in done.err
    assert done.code == 2
