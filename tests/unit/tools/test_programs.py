"""Programs outside of Python: tests start none that no step of the set-up brings."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program_names import names_in, other_ways_in
from tools import programs
from tools.bootstrap import REPO
from tools.programs import DEBIAN, LOCK, SETUP, STATED, STEPS, TEST, step_of

FOLDERS = ("tests", "tools", "demo", "simulation", "benchmarks", "include", "spark_jobs", "dags")
UNKNOWN = "".join(("no", "-such-", "program"))


def sources() -> dict[str, str]:
    """Path of each module -> its text, without the one that lists the programs."""
    return {
        str(path.relative_to(REPO)): path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in (REPO / folder).rglob("*.py")
        if path != Path(programs.__file__)
    }


@pytest.mark.long
def test_every_program_that_is_started_by_its_name_has_a_step() -> None:
    without = {
        (name, file)
        for file, text in sources().items()
        for name in names_in(text)
        if step_of(name) is None
    }
    assert without == set(), "add them to tools/programs.py, with the step that brings them"


@pytest.mark.long
def test_programs_are_started_only_where_their_names_are_seen() -> None:
    """By ``subprocess``, which `tests/support/outside_programs.py` watches."""
    assert {
        (file, call) for file, text in sources().items() for call in other_ways_in(text)
    } == set()


@pytest.mark.long
def test_every_program_that_has_a_step_is_started() -> None:
    text = "\n".join(sources().values())
    assert [name for name in STEPS if f'"{name}"' not in text] == []


def test_every_step_is_one_that_is_taken() -> None:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    page = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name, step in STEPS.items():
        if tool := re.fullmatch(r"make servers \(tools/(\w+)\.py\)", step):
            (line,) = re.findall(rf"-m tools\.{tool[1]} (.*) \|\| \[\[", makefile)
            assert line == "install" or name in line.split()
        elif step == STATED:
            assert f"`{name}`" in page
        else:
            assert step in (DEBIAN, SETUP)


def test_a_program_is_known_by_name_and_by_path() -> None:
    assert step_of("git") == STATED
    assert step_of("/usr/lib/postgresql/15/bin/initdb") == "make servers (tools/postgres.py)"
    assert step_of("/anywhere/actionlint-v1.7.7") == "make servers (tools/gotools.py)"
    assert step_of(sys.executable) == step_of(Path(sys.prefix, "bin", "firnline")) == LOCK
    assert step_of("pytest") == LOCK
    assert step_of(UNKNOWN) is None
    assert step_of(f"/usr/bin/{UNKNOWN}") is None


def test_a_program_that_a_test_has_made_is_its_own(tmp_path: Path) -> None:
    assert step_of(tmp_path / UNKNOWN) == TEST
    assert step_of(REPO / UNKNOWN) is None


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("subprocess.run(['convert', a])", {"convert"}),
        ("subprocess.Popen(('/usr/bin/convert', a))", {"convert"}),
        ("subprocess.check_output([*space, a])\nspace = ['unshare'] if a else ['sudo']", None),
        ("words = ['node'] + more\nsubprocess.run([str(w) for w in words])", set()),
        ("words = ['node'] + more\nsubprocess.run(words, check=True)", {"node"}),
        ("for words in (['git', 'init'], ['npm']):\n    subprocess.run(words)", {"git", "npm"}),
        ("program, more = folder / 'initdb', 1\nsubprocess.run([str(program)])", {"initdb"}),
        ("subprocess.run([tmp_path / 'made-here'])", set()),
        ("found = shutil.which('openssl')", {"openssl"}),
        ("code = '''\nimport subprocess\nsubprocess.run([\"mount\"])\n'''", {"mount"}),
        ("subprocess.run([sys.executable, 'convert'])", set()),
    ],
)
def test_names_are_read_from_sources(source: str, names: set[str] | None) -> None:
    assert names_in(source) == ({"unshare", "sudo"} if names is None else names)


def test_other_ways_to_start_a_program_are_read_from_sources() -> None:
    assert other_ways_in("os.execvp(a, b)\nos.system('x')\nos.path.join(a)\npty.openpty()") == [
        "os.execvp",
        "os.system",
    ]


def test_a_test_that_starts_a_program_without_a_step_fails() -> None:
    with pytest.raises(AssertionError, match=f"no step brings the program {UNKNOWN}"):
        subprocess.run([UNKNOWN, "--version"], check=False)
    with pytest.raises(AssertionError, match=r"tools/programs\.py"):
        shutil.which(UNKNOWN)
    assert shutil.which("sh") is not None
