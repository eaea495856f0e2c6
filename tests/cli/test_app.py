"""The command line as a whole: help, versions, mistakes in it, and how failures look."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.cli import app
from firnline.cli.commands import parts
from firnline.errors import StoreUnavailableError
from tests.support.cli import PROGRAM, LogOnlyTable, Outcome, program
from tests.support.programs import HUNG_SECONDS, run_program

Firnline = Callable[..., Outcome]


def test_without_arguments_it_says_what_there_is(firnline: Firnline) -> None:
    shown = firnline()
    assert shown.code == 0
    assert shown.err == ""
    for name in ("append", "parts", "plan", "merge", "history", "snapshot", "schema", "pools"):
        assert f"\n  {name} " in shown.out
    assert shown == firnline("--help")


@pytest.mark.parametrize(
    "command",
    [
        *("append", "parts", "plan merge", "merge", "history", "snapshot", "pools"),
        *("settings check", "settings show", "schema show", "schema fix"),
    ],
)
def test_every_command_explains_itself_with_examples(firnline: Firnline, command: str) -> None:
    shown = firnline(*command.split(), "--help")
    assert shown.code == 0
    assert f"Examples:\n    firnline {command}" in shown.out
    for option in ("--json", "--debug", "--settings"):
        assert option in shown.out
    assert max(map(len, shown.out.splitlines())) <= 100


def test_a_group_without_a_command_says_what_there_is(firnline: Firnline) -> None:
    assert "check" in firnline("settings").out
    assert "merge" in firnline("plan").out
    assert "fix" in firnline("schema").out


def test_the_version_is_that_of_the_package(firnline: Firnline) -> None:
    from importlib.metadata import version

    assert firnline("--version").out == f"firnline {version('firnline')}\n"
    module = [sys.executable, "-m", "firnline", "--version"]
    assert subprocess.check_output(module, text=True) == f"firnline {version('firnline')}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["prats"], "no such command 'prats'"),
        (["parts"], "missing argument 'TABLE'; see `firnline parts --help`"),
        (["parts", "t", "--nope"], "no such option: --nope; see `firnline parts --help`"),
        (["history", "t", "--last", "many"], "--last': must be a whole number"),
        (["history", "t", "--last", "0"], "--last': must be greater than or equal to 1"),
        (["merge", "t", "--engine", "flink"], "'--engine': 'flink' is not one of 'local', 'spark'"),
        (["plan", "marge", "t"], "no such command 'marge'"),
    ],
)
def test_a_mistake_in_the_command_line_is_wrong_usage(
    firnline: Firnline, arguments: list[str], said: str
) -> None:
    shown = firnline(*arguments)
    assert shown.code == 2
    assert shown.out == ""
    assert said in shown.sentence


def test_with_json_a_mistake_in_the_command_line_is_json_too(firnline: Firnline) -> None:
    error = firnline("parts", "--json", "--nope", "t").error
    assert error == {
        "type": "UsageError",
        "message": "no such option: --nope",
        "next_step": "see `firnline parts --help`",
        "exit_code": 2,
        "retryable": False,
    }


def test_options_after_two_dashes_are_arguments(firnline: Firnline) -> None:
    assert "no table '--json'" in firnline("parts", "--", "--json").sentence


def fail(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(parts, "describe", broken)


def test_a_bug_is_one_sentence_and_asks_for_a_report(
    firnline: Firnline, table: LogOnlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, KeyError("boom\nwith a second line"))
    shown = firnline("parts", table.root)
    assert shown.code == 1
    assert shown.sentence == (
        "unexpected KeyError: 'boom\\nwith a second line'; run again with --debug and report it"
    )


def test_debug_adds_the_traceback(
    firnline: Firnline, table: LogOnlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, ValueError("boom"))
    lines = firnline("parts", table.root, "--debug").err.splitlines()
    assert lines[:2] == ["settings: none", "Traceback (most recent call last):"]
    assert lines[-1].startswith("firnline: unexpected ValueError: boom; ")
    error = firnline("parts", table.root, "--debug", "--json").error
    assert error["traceback"][-1] == "ValueError: boom\n"


def test_an_error_that_may_pass_by_itself_says_so_in_json(
    firnline: Firnline, table: LogOnlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, StoreUnavailableError("slow down", next_step="try later"))
    shown = firnline("parts", table.root, "--json")
    assert shown.code == 1
    assert shown.out == ""
    assert shown.error["retryable"] is True


def test_names_in_an_error_cannot_drive_the_terminal(firnline: Firnline, tmp_path: Path) -> None:
    shown = firnline("parts", f"file://{tmp_path}/\x1b[31mred")
    assert shown.code == 2
    assert "\x1b" not in shown.err
    assert "\\x1b[31mred" in shown.sentence


def test_ctrl_c_while_reading_says_that_nothing_was_changed(
    firnline: Firnline, table: LogOnlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, KeyboardInterrupt())
    shown = firnline("parts", table.root)
    assert shown.code == 130
    assert shown.sentence == "stopped; nothing was changed; run the same command again"


def test_ctrl_c_while_a_report_is_printed_does_not_say_that_nothing_was_changed(
    firnline: Firnline, table: LogOnlyTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The rows are in the table by then: who believed it would append them twice."""

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"id": [1]}), path)
    monkeypatch.setattr("firnline.cli.output.show", stopped)
    shown = firnline("append", f"file://{tmp_path}/t", path)
    assert shown.code == 130
    assert shown.sentence.startswith("stopped; either all of the rows were appended to t or none")
    shown = firnline("parts", f"file://{tmp_path}/t")
    assert shown.sentence == "stopped; nothing was changed; run the same command again"


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_signal_ends_the_program_with_a_sentence_and_its_code(
    table: LogOnlyTable, sent: signal.Signals, code: int
) -> None:
    script = textwrap.dedent("""
        import signal, sys
        # Whoever runs the tests in the background has it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from firnline.cli import app
        from firnline.cli.commands import parts
        def wait(*_):
            print("ready", flush=True)
            signal.pause()
        parts.describe = wait
        sys.argv[1:] = ["parts", sys.argv[1]]
        app.main()
    """)
    started = subprocess.Popen(
        [sys.executable, "-c", script, table.root],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    started.send_signal(sent)
    _, err = started.communicate(timeout=HUNG_SECONDS)
    assert started.returncode == code
    assert err.startswith("firnline: stopped; nothing was changed")
    assert len(err.splitlines()) == 1


def test_a_reader_that_goes_away_is_no_error_message(table: LogOnlyTable) -> None:
    table.append({f"p={number}": [10] for number in range(400)})
    for extra in ([], ["--json"]):
        started = subprocess.Popen(
            [str(PROGRAM), "parts", table.root, *extra],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pipesize=4096,  # less than is printed
        )
        assert started.stdout is not None
        assert started.stdout.read(10)
        started.stdout.close()
        assert started.stderr is not None
        assert started.stderr.read() == b""
        assert started.wait(HUNG_SECONDS) == 141


def test_help_loads_nothing_it_does_not_need() -> None:
    """Modules are what a start takes its time for."""
    script = (
        "import json, sys; from firnline.cli.app import run; run(['--help']); "
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = run_program([sys.executable, "-c", script])
    loaded = json.loads(done.stderr)
    heavy = {"pyarrow", "duckdb", "pyspark", "boto3", "obstore", "pydantic", "numpy"}
    assert heavy & set(loaded) == set()
    assert len(loaded) < 330, loaded


def test_a_terminal_without_unicode_gets_ascii(table: LogOnlyTable) -> None:
    shown = program("parts", table.root, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert shown.code == 0, shown.err
    assert shown.out.isascii()
    assert "d=1" in shown.out


def test_json_on_stdout_is_nothing_but_json(firnline: Firnline, table: LogOnlyTable) -> None:
    shown = firnline("parts", table.root, "--json")
    assert shown.err == ""
    assert json.loads(shown.out)["table"] == "events"


def test_the_module_is_the_program_too() -> None:
    done = run_program([sys.executable, "-m", "firnline.cli.app", "--version"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("firnline ")
    assert callable(app.main)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("s3:/lake/x", "s3://lake/x"),
        ("S3://lake/x", "s3://lake/x"),
        ("s3a://lake/x", "s3://lake/x"),
        ("file:/data/x", "file:///data/x"),
        ("/data/x", "file:///data/x"),
        ("/data/../x", "file:///x"),
        ("file://localhost/data/x", "file:///data/x"),
        ("~/x", "file:///home/ana/x"),
        ("file://~/x", "file:///home/ana/x"),
        ("arn:aws:s3:::lake/x", "s3://lake/x"),
        ("arn:aws-cn:s3:::lake/x", "s3://lake/x"),
        ("arn:aws:s3:eu-west-1:1:accesspoint/x", "the s3:// URL of the bucket"),
        ("gcs://lake/x", "gs://lake/x"),
        ("abfss://lake@account.dfs.core.windows.net/x", "az://lake/x"),
        ("dbfs:/x", "the s3://, gs:// or az:// URL"),
        ("dbfs:///x", "the s3://, gs:// or az:// URL"),
        ("$ROOT/x", "what it stands for"),
        ("s3://lake/${DAY}", "what it stands for"),
        ("s3://lake/{{ ds }}", "what it stands for"),
    ],
)
def test_what_is_almost_a_root_is_answered_with_the_root(
    firnline: Firnline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: str,
    meant: str,
) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    table = f"file://{tmp_path}/t"
    for command in (
        ["parts", written],
        ["append", written, "f.parquet"],
        ["import", table, written],
        ["init", "x", "--root", written, "--yes"],
    ):
        done = firnline(*command)
        assert (done.code, f"; write {meant}" in done.sentence) == (2, True), done.err
        assert done.sentence.count("; write ") == 1


def test_a_credential_is_not_repeated(firnline: Firnline) -> None:
    for url in ("s3a://k:s3cr3t@b/t", "s3://k:s3cr3t@b/$X", "S3://k:s3cr3t@b/t"):
        done = firnline("parts", url)
        assert (done.code, "s3cr3t" in done.err) == (2, False)


def test_an_append_takes_files_and_says_what_takes_a_bucket(
    firnline: Firnline, tmp_path: Path
) -> None:
    table = f"file://{tmp_path}/t"
    done = firnline("append", table, "s3://lake/in/x.parquet")
    assert done.code == 2
    assert done.sentence == (
        "only files of this machine are taken here, and s3://lake/in/x.parquet is none; "
        f"`firnline import {table} s3://lake/in` takes those of a bucket; or copy x.parquet here "
        "first"
    )
    assert "write /data/x.parquet" in firnline("append", table, "file:///data/x.parquet").sentence
