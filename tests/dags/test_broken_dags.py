"""DAGs of a table whose settings have mistakes; all others are as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firnline.airflow.broken import TASK, RefuseSettings
from firnline.airflow.versions import AirflowFailException
from firnline.operations.registry import DAGS
from tests.dags.parsing import Parser

TABLES = """
defaults:
  alerts: {notifier: some.where.Notifier}
tables:
  good: {root: 'file:///tmp/good'}
  bad: {root: 'file:///tmp/bad', merge: {slotz: 2}, own_dags: [merge, verify]}
  worse: {root: 'file:///tmp/worse', merge: {slotz: 2}}
  -rf: {root: 'file:///tmp/rf'}
"""


def test_a_mistake_in_one_table_leaves_all_others_their_dags_and_makes_its_own_say_so(
    parser: Parser, tmp_path: Path
) -> None:
    parsed = parser.parse(tmp_path, TABLES)
    assert parsed["errors"] == {}
    dags = parsed["dags"]
    bad = {"merge__bad", "verify__bad", "merge__worse"}
    shared = {each.dag for each in DAGS if each.dag != "ttl"}
    assert dags.keys() == {*bad, *shared, "fleet__merge"}
    for name in bad:
        assert list(dags[name]["pools"]) == [TASK]
        assert dags[name]["on_failure"]
        table = name.partition("__")[2]
        assert f"tables.{table}.merge.slotz: is not a setting" in dags[name]["doc"]
    assert "plan" in dags["merge"]["pools"]
    assert json.dumps(dags["merge"]["params"]["table"][1]["enum"]) == '["good"]'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tables: {t: {root: 's3://b/t', merge: {slotz: 2}}}", "tables.t.merge.slotz: is not a"),
        ("tables: {t: {root: 's3://b/t'}}", "the settings of table t are right by now"),
        ("tables: {u: {root: 's3://b/t'}}", "no table 't'"),
    ],
)
def test_its_runs_fail_with_the_mistake(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tables.yaml"
    path.write_text(text)
    monkeypatch.setenv("FIRNLINE_TABLES", str(path))
    with pytest.raises(AirflowFailException, match=said):
        RefuseSettings(task_id=TASK, table_name="t").execute({})
