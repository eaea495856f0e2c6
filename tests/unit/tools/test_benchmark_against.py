"""Two commits compared: the ratios, the table, and what is measured on which code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.against import Asked, Ratio, checked_out, compare, ratio, table

ASKED = Asked(("policy",), rounds=2, cache=Path("cache"), small=True, sizes=("policy_days=8",))
MIB = 2.0**20
SEVERAL = "0.75 (0.50 to 1.00)"


def test_a_ratio_is_the_median_of_the_rounds_and_not_the_ratio_of_the_medians() -> None:
    assert ratio([2.0, 9.0, 4.0], [1.0, 10.0, 8.0]) == Ratio(0.9, 0.5, 2.0)


@pytest.mark.parametrize(
    ("new", "old"), [([], []), ([1.0, 0.0], [1.0, 1.0]), ([1.0, 1.0], [0.0, 1.0])]
)
def test_what_was_not_measured_has_no_ratio(new: list[float], old: list[float]) -> None:
    assert ratio(new, old) is None


def test_a_row_for_each_contender_and_dashes_for_what_is_missing() -> None:
    new = [{"a": (1.0, 0.5, 3 * MIB), "b": (2.0, 0.0, MIB)}, {"a": (3.0, 0.5, MIB)}]
    old = [{"a": (2.0, 1.0, 2 * MIB), "c": (1.0, 1.0, 0.0)}, {"a": (3.0, 1.0, 2 * MIB)}]
    lines = table(new, old).splitlines()
    assert [re.split(" {2,}", line) for line in lines] == [
        ["contender", "old s", "new s", "time", "CPU", "peak memory"],
        ["a", "2.500", "2.000", SEVERAL, "0.50 (0.50 to 0.50)", "1.00 (0.50 to 1.50)"],
        ["b", "-", "-", "-", "-", "-"],
        ["c", "-", "-", "-", "-", "-"],
    ]


class Runs:
    """Stands for the processes of rounds: figures for one code, or an end with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails_on: str = "", lies: bool = False):
        self.codes: list[str] = []
        self.fails_on, self.lies = fails_on, lies
        self.really = subprocess.run
        monkeypatch.setattr("benchmarks.against.subprocess.run", self.run)

    def run(self, command: list[str], **given: Any) -> subprocess.CompletedProcess[str]:
        if command[0] != sys.executable:
            return self.really(command, **given)
        env = given["env"]
        assert isinstance(env, dict)
        code = env["PYTHONPATH"].split(":")[0]
        which = "old" if "against" in code else "new"
        self.codes.append(which)
        if which == self.fails_on:
            said = "Traceback\nImportError: no such thing\n"
            return subprocess.CompletedProcess(command, 1, "", said)
        to = next(word for word in command if word.startswith("--figures=")).partition("=")[2]
        figures = [{"name": "a", "rounds": [[2.0 if which == "old" else 1.0, 1.0, 0]]}]
        measured = "elsewhere" if self.lies else f"{code}/firnline"
        Path(to).write_text(json.dumps({"code": measured, "policy": figures}))
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of one commit."""
    (tmp_path / "include" / "firnline").mkdir(parents=True)
    (tmp_path / "include" / "firnline" / "code.py").write_text("OLD = True\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "include" / "firnline" / "code.py").write_text("OLD = False\n")
    return tmp_path


@pytest.mark.long
def test_the_old_code_is_that_of_the_commit(repository: Path) -> None:
    sha, folder = checked_out("HEAD", repository)
    assert (folder / "include" / "firnline" / "code.py").read_text() == "OLD = True\n"
    assert folder == repository / ".cache" / "against" / sha
    assert checked_out(sha[:10], repository) == (sha, folder)


def test_what_is_no_commit_is_said(repository: Path) -> None:
    with pytest.raises(SystemExit, match="nonsense is no commit"):
        checked_out("nonsense", repository)


@pytest.mark.long
def test_the_codes_take_turns(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(monkeypatch)
    assert compare("HEAD", repository, ASKED) == 0
    assert runs.codes == ["new", "old", "old", "new"]
    said = capsys.readouterr().out
    assert "0.50 (0.50 to 0.50)" in said
    assert "policy, 2 rounds" in said


@pytest.mark.long
@pytest.mark.parametrize("which", ["old", "new"])
def test_a_section_that_does_not_run_is_said_with_its_error(
    which: str,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Runs(monkeypatch, fails_on=which)
    assert compare("HEAD", repository, ASKED) == 1
    said = capsys.readouterr().out
    assert f"policy: {which} code: does not run: ImportError: no such thing" in said


@pytest.mark.long
def test_another_code_than_the_one_asked_for_is_never_compared(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Runs(monkeypatch, lies=True)
    assert compare("HEAD", repository, ASKED) == 1
    assert "elsewhere was measured instead of" in capsys.readouterr().out
