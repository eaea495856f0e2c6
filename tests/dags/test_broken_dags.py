"""DAGs of a table whose settings have mistakes; all others are as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from firnline.airflow.broken import TASK, RefuseSettings
from firnline.operations.dag_ids import dag_id
from firnline.operations.registry import OPERATIONS
from tests.dags.parsing import Parser

TABLES = """
defaults:
  alerts: {notifier: some.where.Notifier}
tables:
  good: {root: 'file:///tmp/good'}
  bad: {root: 'file:///tmp/bad', merge: {slotz: 2}}
  -rf: {root: 'file:///tmp/rf'}
"""


def test_a_mistake_in_one_table_leaves_all_others_their_dags_and_makes_its_own_say_so(
    parser: Parser, tmp_path: Path
) -> None:
    parsed = parser.parse(tmp_path, TABLES)
    assert parsed["errors"] == {}
    dags = parsed["dags"]
    own = {each.dag for each in OPERATIONS if not each.by_hand and each.dag not in (None, "ttl")}
    good = {dag_id(operation, "good") for operation in own}
    bad = {dag_id(operation, "bad") for operation in own}
    shared = {each.dag for each in OPERATIONS if each.by_hand}
    assert dags.keys() == {*good, *bad, *shared, "fleet__merge"}
    for name in bad:
        assert list(dags[name]["pools"]) == [TASK]
        assert dags[name]["on_failure"]
        assert "tables.bad.merge.slotz: is not a setting" in dags[name]["doc"]
    assert "plan" in dags["merge__good"]["pools"]


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
