from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firnline.cli import failures
from firnline.cli.app import root_command
from firnline.cli.failures import (
    TAKE_A_TABLE,
    TAKE_SETTINGS,
    Manner,
    done,
    nothing_begun,
    only_here,
    output_written,
    runnable,
    sentence,
    stopped,
    tell,
    with_report,
)
from firnline.errors import FirnlineError
from firnline.store.base import Changes, Counters


@pytest.fixture(autouse=True)
def _one_command_line() -> Iterator[None]:
    nothing_begun()
    yield
    nothing_begun()


HOSTILE = "partition \x1b[31mred\u202e"


def test_what_an_error_names_cannot_drive_the_terminal() -> None:
    """Not every message quotes the names that it takes from the table."""
    told = sentence(FirnlineError(f"{HOSTILE}\nfirnline: done", next_step="look at it"))
    assert told == "partition \\x1b[31mred\\u202e\\nfirnline: done; look at it"


def test_only_a_list_of_mistakes_has_lines() -> None:
    error = FirnlineError("2 mistakes:", next_step="look at it", listed=["a\nb", HOSTILE])
    lines = ["2 mistakes:", "  a\\nb", "  partition \\x1b[31mred\\u202e", "Look at it."]
    assert sentence(error).splitlines() == lines
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.listed) == (str(error), error.listed)
    assert error.message == f"2 mistakes:\n  a\nb\n  {HOSTILE}\n"


def test_neither_can_a_bug_nor_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    error = ValueError(HOSTILE)
    error.add_note(HOSTILE)
    assert tell(error, Manner()) == 1
    assert capsys.readouterr().err.count("\\x1b[31mred\\u202e") == 2


@pytest.mark.parametrize(
    ("target", "settings", "typed"),
    [
        ("events", None, "events"),
        ("file:///my lake/events", None, "'file:///my lake/events'"),
        ("events", Path("my\\tables.yaml"), "events --settings 'my\\tables.yaml'"),
    ],
)
def test_commands_in_messages_name_the_table_as_the_command_line_did(
    target: str, settings: Path | None, typed: str
) -> None:
    assert runnable("see `firnline parts`") == "see `firnline parts`"
    failures.given("events", target, settings, "file:///my lake/events")
    assert runnable("run `firnline plan merge events` or `firnline parts`") == (
        f"run `firnline plan merge {typed}` or `firnline parts {typed}`"
    )
    assert runnable("`firnline append TABLE FILE`") == f"`firnline append {typed} FILE`"
    by_root = "`firnline append 'file:///my lake/events' FILE`"
    assert runnable(by_root) == f"`firnline append {typed} FILE`"
    option = "" if settings is None else f" --settings '{settings}'"
    assert runnable("run `firnline settings check`") == f"run `firnline settings check{option}`"
    for other in ("see `firnline merge other`", "see `firnline merge --help`"):
        assert runnable(other) == other
    failures.given("other", "other", None)
    assert runnable("see `firnline parts`") == "see `firnline parts`"


def test_the_commands_that_take_a_table_or_a_settings_file_are_known() -> None:
    takes: dict[bool, set[str]] = {True: set(), False: set()}
    for name, command in commands_of(root_command()):
        first = next((p.name for p in command.params if p.param_type_name == "argument"), "")
        if any(param.name == "settings" for param in command.params):
            takes[first == "table"].add(name)
    assert takes[True] == {*TAKE_A_TABLE} - {"schema", "properties", "hold"}
    assert takes[False] - {"clone"} == {*TAKE_SETTINGS} - {"erasure"}


def commands_of(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The commands of a program, each with the words that call it."""
    for word, inner in getattr(command, "commands", {}).items():
        yield from commands_of(inner, f"{name} {word}".strip())
    if not hasattr(command, "commands"):
        yield name, command


def test_after_a_change_no_bug_and_no_interrupt_says_that_there_was_none() -> None:
    failures.given("events", "events", None)
    assert sentence(KeyError("x")).endswith("; run again with --debug and report it")
    assert str(stopped(KeyboardInterrupt())).startswith("stopped; nothing was changed; run the")
    Counters().add({"get": 1, "list": 1})
    with Changes.none():
        Counters().add({"put": 2, "delete": 1})
    assert sentence(KeyError("x")).endswith("; run again with --debug and report it")
    Counters().add({"put": 1})
    see = "see with `firnline history events` and `firnline snapshot events` what was done"
    assert (
        sentence(KeyError("x")) == f"unexpected KeyError: 'x'; report it, and {see} before you "
        "run it again"
    )
    assert sentence(stopped(KeyboardInterrupt())) == (
        f"stopped; some of the work is done; {see} before you run it again"
    )
    nothing_begun()
    assert sentence(KeyError("x")).endswith("; run again with --debug and report it")


def test_a_file_that_was_written_is_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    with failures.when_stopped("stopped; x.csv was not written", next_step="run it again"):
        done("x.csv is written")
    assert str(stopped(KeyboardInterrupt())).startswith("stopped; x.csv is written; see what")
    lost = failures.output_lost(OSError(5, "Input/output error"))
    assert lost is not None
    assert tell(lost, Manner()) == 1
    assert capsys.readouterr().err == (
        "firnline: x.csv is written, and only the output is incomplete: input/output error; do "
        "not run the command again, but see what was done\n"
    )


def test_what_only_the_output_has_is_told_by_the_failure_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    only_here("secret: abc")
    tell(KeyError("x"), Manner())
    assert capsys.readouterr().err.splitlines()[1] == "  secret: abc"
    only_here("secret: abc")
    output_written()
    tell(KeyError("x"), Manner())
    assert "abc" not in capsys.readouterr().err


def test_a_run_that_failed_is_told_of_without_its_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failure = FirnlineError("2 parts failed", next_step="look")
    with pytest.raises(FirnlineError) as caught, with_report(failure):
        raise OSError(28, "No space left on device")
    tell(caught.value, Manner())
    assert capsys.readouterr().err.splitlines() == [
        "firnline: 2 parts failed; look",
        "  the report of this run cannot be printed: No space left on device",
    ]
    with pytest.raises(OSError, match="space"), with_report(None):
        raise OSError(28, "No space left on device")


def test_the_command_line_writes_files_only_where_it_notes_it() -> None:
    """Else the advice after lost output would be to write them again."""
    folder = Path(failures.__file__).parent
    writes = re.compile(r"\.(write_text|write_bytes|rename)\(|\.open\(\"[wx]")
    found = {
        str(path.relative_to(folder)): "done(f" in path.read_text(encoding="utf-8")
        for path in folder.rglob("*.py")
        if writes.search(path.read_text(encoding="utf-8"))
    }
    assert found == dict.fromkeys(
        ("airflow_files.py", "files.py", "sample.py", "commands/init.py"), True
    )
