"""The shell of a Spark job: what it takes as options and how it says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from firnline.errors import FindingsError, SupervisorGoneError
from firnline.operations.common_options import DryRun, Mode, Partitions
from firnline.operations.fields import Option
from firnline.operations.job_variables import OPTIONS_VARIABLE
from firnline.operations.operation import About, Operation, Work
from firnline.operations.registry import MERGE, VERIFY
from firnline.pages import Page
from firnline.spark.job import Job

GONE = SupervisorGoneError("the task is gone", next_step="wait")
# As a call to DuckDB or Spark that is interrupted ends.
ORPHANED = {
    "orphaned": KeyboardInterrupt(),
    "orphaned in a call": RuntimeError("Query interrupted"),
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Of a made-up operation."""

    where: Annotated[str, Option("Where", "These.", metavar="SQL")]
    partitions: Partitions = ()
    limit: Annotated[int | None, Option("Limit", "At most.", metavar="N")] = None
    mode: Annotated[Mode | None, Option("Mode", "When.")] = None
    size: Annotated[int | None, Option("Size", "So big.", metavar="N", unit="size")] = None
    dry_run: DryRun = False


@dataclass(frozen=True)
class Said:
    """A report that repeats what it was asked."""

    data: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return self.data


class NotedError(FindingsError):
    """An error with a report."""

    report = Said({"found": 1})


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., int]:
    """Runs a job on an empty table; no engine is ever asked for."""

    def run(work: Work, options: Options) -> Said:
        if options.where == "fail":
            raise NotedError("it has a finding", next_step="look at it")
        if options.where == "stop":
            raise KeyboardInterrupt
        if options.where in ORPHANED:
            work.table.interrupts.ask(GONE)
            raise ORPHANED[options.where]
        run = work.identity
        who = " ".join(filter(None, [run.run_id, run.user, run.approved_by]))
        said = {"where": options.where, "in": list(options.partitions), "id": who}
        more = {"limit": options.limit, "mode": options.mode, "size": options.size}
        return Said(said | {name: value for name, value in more.items() if value is not None})

    class Made(About[Options, Any, Any]):
        def load(self) -> Operation[Options, Any, Any]:
            return Operation(
                about=self,
                preview=lambda _table, o: Said({"planned": o.where}),
                act=run,
                report_page=lambda _: Page(),
                stopped=lambda _table, _options: ("", ""),
            )

    about = Made(
        name="made", command="make", noun="a make", title="Make it", options=Options, begins=True
    )
    made = Job(about)
    return lambda *arguments: made.main([f"file://{tmp_path}/t", *arguments])


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return json.loads(out or "{}"), json.loads(err or '{"error": {}}')["error"]


def test_options_come_by_argument_or_by_environment(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"where": "a = 1", "partitions": ["d=1", "d=2"]}'
    assert job(f"--options={text}", "--run-id=r") == 0
    by_argument = printed(capsys)[0]
    monkeypatch.setenv(OPTIONS_VARIABLE, text)
    assert job("--run-id=r") == 0
    assert printed(capsys)[0] == by_argument == {"where": "a = 1", "in": ["d=1", "d=2"], "id": "r"}
    assert job(f"--options={text}") == 2
    assert "twice" in printed(capsys)[1]["message"]


def test_options_are_arguments_too(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--where=a = 1", "--partitions=d=1", "--partitions=d=2", "--limit=0", "--mode=lazy")
    assert job(*asked, "--run-id=r") == 0
    assert printed(capsys)[0] == {
        "where": "a = 1",
        "in": ["d=1", "d=2"],
        "id": "r",
        "limit": 0,
        "mode": "lazy",
    }
    assert job("--where=a", "--mode=gentle") == 2
    assert job("--where=a", "--limit=x") == 2


def test_who_started_and_who_approved_are_handed_on(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    who = ("--run-id=r", "--user=ana", "--approved-by=bo")
    assert job('--options={"where": "a = 1"}', *who) == 0
    assert printed(capsys)[0]["id"] == "r ana bo"


def test_a_dry_run_prints_the_plan(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ['--options={"where": "x"}', "--dry-run"],
        ['--options={"where": "x", "dry_run": true}'],
    ):
        assert job(*arguments) == 0
        assert printed(capsys)[0] == {"planned": "x"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("{}", "where"),
        ('{"where": "SECRET", "were": 1}', "'were'"),
        ('{"where": 17}', "where"),
        ('{"where": "SECRET"', "JSON"),
        ("[1]", "object"),
    ],
)
def test_options_that_do_not_read_are_one_sentence_without_their_values(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str], options: str, says: str
) -> None:
    assert job(f"--options={options}") == 2
    error = printed(capsys)[1]
    assert says in error["message"]
    assert "SECRET" not in json.dumps(error)
    assert error["retryable"] is False


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--where=a", "--where=b"], "--where is given twice"),
        (["--options={}", "--options={}"], "--options is given twice"),
        (['--options={"where": "a"}', "--where=b"], "where is given twice, in JSON and as an"),
        (['--options={"where": "a", "where": "b"}'], "the options have 'where' twice"),
        (["--wher=a"], "unrecognized arguments: --wher=a"),
        (["--where=a", "--dry"], "unrecognized arguments: --dry"),
        (["--where="], "where is empty"),
        (["--where=a", "--partitions="], "one of partitions is empty"),
        (["--where=a", "--settings="], "--settings is empty"),
        (["--where=a", "--master="], "--master is empty"),
        (["--options="], "--options is empty"),
    ],
)
def test_what_is_given_twice_in_part_or_empty_is_refused(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert job(*arguments) == 2
    assert says in printed(capsys)[1]["message"]


def test_a_field_may_come_by_json_and_another_as_an_argument(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, '{"where": "a", "size": "1KiB"}')
    assert job("--limit=3", "--user=", "--approved-by=") == 0
    assert printed(capsys)[0] == {"where": "a", "in": [], "id": "", "limit": 3, "size": 1024}


def test_the_refusal_names_the_fields_of_this_job(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ("[]", "{", '{"were": 1}'):
        assert job(f"--options={options}") == 2
        step = printed(capsys)[1]["next_step"]
        assert step.endswith("the fields are dry_run, limit, mode, partitions, size, where")


def test_a_job_that_only_looks_has_no_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Job(VERIFY).main(["--help"])
    assert "--dry-run" not in capsys.readouterr().out


def test_a_root_without_a_table_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Job(MERGE).main([f"file://{tmp_path}/none", "--no-spark"]) == 2
    out, error = printed(capsys)
    assert (out, error["type"]) == ({}, "NoTableError")


def test_an_error_that_has_a_report_prints_it_before(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert job('--options={"where": "fail"}') == 1
    report, error = printed(capsys)
    assert report == {"found": 1}
    assert (error["type"], error["message"]) == ("NotedError", "it has a finding")


def test_a_job_that_is_stopped_says_so_in_one_line_and_may_be_run_again(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert job('--options={"where": "stop"}') == 130
    error = printed(capsys)[1]
    assert "what it had committed stays" in error["message"]
    assert error["retryable"] is True


@pytest.mark.parametrize("where", ORPHANED)
def test_a_job_whose_supervisor_is_gone_says_that_whatever_ended_it(
    job: Callable[..., int], capsys: pytest.CaptureFixture[str], where: str
) -> None:
    assert job(f'--options={{"where": "{where}"}}') == 129
    error = printed(capsys)[1]
    assert (error["type"], error["message"]) == ("SupervisorGoneError", "the task is gone")
    assert error["retryable"] is True
