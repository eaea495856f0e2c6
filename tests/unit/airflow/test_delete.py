from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firnline.airflow.erase import ApprovedErase, EraseWork, ReportErase, certificates_of
from firnline.airflow.figures import time_text
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import AirflowSkipException, ParamValidationError
from firnline.airflow.works import DeleteWork
from firnline.errors import UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.run import run_erase
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, EraseOptions
from tests.dags.filled import fill
from tests.support.airflow_context import run_context
from tests.support.world import World, make_world

DELETE, ERASE, APPROVED = DeleteWork(), EraseWork(), ApprovedErase()
SECRET = 7_654_321


@pytest.fixture
def world() -> World:
    """Two partitions, each of two parts of 50 keys."""
    world = make_world()
    fill(world.table, 2)
    return world


def lines(work: Any, world: World, conf: dict[str, Any]) -> list[str]:
    """What the plan of a run says."""
    plan = work.preview(world.table, work.parse_params(run_context(work, conf)))
    return list(work.plan_page(world.table, work.plan_figures(plan)).lines())


# --- delete where ---------------------------------------------------------------------------------


def test_a_delete_by_hand_only_plans_unless_told_otherwise(world: World) -> None:
    asked = DELETE.parse_params(run_context(DELETE, {"where": "k < 5"}))
    assert asked == DeleteOptions(where="k < 5", dry_run=True)
    conf = {"where": "k < 5", "partitions": ["day=a"], "mode": "lazy", "dry_run": False}
    assert DELETE.parse_params(run_context(DELETE, conf)) == DeleteOptions(
        where="k < 5", partitions=("day=a",), mode="lazy"
    )


def test_a_delete_s_plan_says_what_is_read_and_what_stays(world: World) -> None:
    said = lines(DELETE, world, {"where": "k < 5", "partitions": ["day=a"]})
    assert said[0].startswith("partition day=a: to read 2, to drop 0, ")
    assert said[-1].startswith("2 parts of t would be read (about ")
    assert said[-1].endswith("), and rewritten where rows match.")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "value"), [("where", ""), ("where", None), ("mode", "gentle"), ("partitions", "day")]
)
def test_airflow_refuses_params_of_the_wrong_form(name: str, value: object) -> None:
    with pytest.raises(ParamValidationError):
        DELETE.params()[name].resolve(value)


def test_a_delete_needs_a_condition_and_an_erase_its_columns() -> None:
    for param in (DELETE.params()["where"], ERASE.params()["columns"]):
        with pytest.raises(ParamValidationError):
            param.resolve()


# --- erase ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([1, 2], ((1,), (2,))),
        (["a"], (("a",),)),
        ([["a", 1], ["b", 2]], (("a", 1), ("b", 2))),
        (None, ()),
    ],
)
def test_keys_are_values_or_lists_of_them(keys: object, expected: object) -> None:
    conf = {"columns": ["k"], "keys": keys, "keys_file": None if keys else "s3://b/keys.csv"}
    options = ERASE.parse_params(run_context(ERASE, conf)).options
    assert (options.keys, options.columns, options.dry_run) == (expected, ("k",), True)


def test_no_key_stands_in_plan_question_log_or_argument_list(world: World) -> None:
    conf = {"columns": ["k"], "keys": [SECRET, 3]}
    asked = ERASE.parse_params(run_context(ERASE, conf))
    figures = ERASE.plan_figures(ERASE.preview(world.table, asked))
    subject, body = ERASE.question(world.settings, figures, 1_795_521_600_000)
    assert subject == "Erase 2 keys from table t?"
    assert "All rows of **2 keys** of `k` go for good." in body
    assert "**No restore brings the rows back.**" in body
    assert (
        "are deleted 1d after the erase: approved now, not before 2026-11-25 12:00:00 UTC" in body
    )
    assert "| `day=a` | 2 | " in body
    page = ERASE.plan_page(world.table, figures)
    assert page.sentence.startswith("Keys of k: 2. 4 parts of t would be read (")
    logged = [*page.lines(), page.sentence]
    shown = [subject, body, str(figures), *logged, ERASE.approved_by(asked)]
    assert not [text for text in shown if str(SECRET) in text]
    assert str(SECRET) in ERASE.job_options(asked)


def test_inline_keys_go_to_no_cluster_where_they_would_be_arguments() -> None:
    inline = ERASE.parse_params(run_context(ERASE, {"columns": ["k"], "keys": [1]}))
    assert "keys_file" in str(ERASE.confidential(inline))
    file = ERASE.parse_params(
        run_context(ERASE, {"columns": ["k"], "keys_file": "s3://b/keys.csv"})
    )
    assert ERASE.confidential(file) is None


def test_who_approved_an_erase_stands_in_its_history() -> None:
    conf = {"columns": ["k"], "keys": [1], "dry_run": False}
    answer = {"approved": True, "by": "bo"}
    asked = APPROVED.parse_params(run_context(APPROVED, conf, approve=answer))
    assert APPROVED.approved_by(asked) == "bo"
    with pytest.raises(UsageError, match="nobody approved"):
        APPROVED.parse_params(run_context(APPROVED, conf))


@pytest.mark.parametrize("keys", [[None], [{}], "1", [1.5, None]])
def test_airflow_refuses_keys_that_are_none(keys: object) -> None:
    with pytest.raises(ParamValidationError):
        ERASE.params()["keys"].resolve(keys)


@pytest.mark.long
def test_the_certificate_of_a_run_is_found(world: World, tmp_path: Path) -> None:
    def engine() -> LocalEngine:
        return LocalEngine(lambda: world.store, tmp_path, world.ids, world.clock)

    runs = [RunIdentity(dag_id="erase__t", run_id=name) for name in ("first", "second")]
    ids = [
        run_erase(
            Work(world.table, run, engine), EraseOptions(columns=("k",), keys=((key,),))
        ).certificate
        for key, run in enumerate(runs)
    ]
    found = [[each.id for each in certificates_of(world.table, run)] for run in runs]
    assert found == [[erase] for erase in ids]


@pytest.mark.long
@pytest.mark.parametrize(
    ("operations", "by"),
    [
        (["erase", "tombstone_cleanup"], "a run of tombstone_cleanup"),
        (["erase"], "`firnline certificate t {id}`"),
    ],
)
def test_the_note_of_an_erase_names_its_certificate_and_what_completes_it(
    operations: list[str], by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: dict[str, Any] = {"cleanup": {"grace": "5d"}, "append": {"ttl": "1d"}}
    world = make_world(operations=operations, **waits)
    fill(world.table, 2)
    monkeypatch.setattr("firnline.airflow.tasks.open_in_task", lambda _: world.table)
    run = RunIdentity(dag_id="erase__t", run_id="manual__1")
    asked = EraseOptions(columns=("k",), keys=((3,),))
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, world.clock)
    certificate = run_erase(Work(world.table, run, lambda: engine), asked).certificate
    begun = world.clock.now_ms()
    context = run_context(ERASE, {"columns": ["k"]}, plan={"seq": 0})
    report = ReportErase(task_id="report", work=ERASE, table=OneTable(world.settings))
    figures = report.execute(context)
    assert figures["certificates"] == [certificate]
    assert figures["completed_after_ms"] == begun + 5 * 24 * 3_600_000
    said = context["ti"].pushed["said"]
    until = time_text(figures["completed_after_ms"])
    assert said.startswith("erased: ")
    what = by.format(id=certificate)
    assert said.endswith(f"; certificate {certificate}: {what} after {until} UTC completes it")


def test_the_note_of_an_erase_that_committed_nothing_names_no_certificate(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firnline.airflow.tasks.open_in_task", lambda _: world.table)
    context = run_context(ERASE, {"columns": ["k"]}, plan={"seq": 0})
    report = ReportErase(task_id="report", work=ERASE, table=OneTable(world.settings))
    with pytest.raises(AirflowSkipException):
        report.execute(context)
    assert context["ti"].pushed["said"] == "nothing was committed"
