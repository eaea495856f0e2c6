"""The workflows of CI: they are valid, and run what the Makefile offers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from firnline.errors import EnvironmentFaultError
from tools.bootstrap import REPO
from tools.gotools import TOOLS

WORKFLOWS = sorted((REPO / ".github" / "workflows").glob("*.yml"))


def lint(program: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    # Without the linters of shell and Python that happen to be installed here.
    command = [str(program), "-no-color", "-shellcheck=", "-pyflakes=", *map(str, files)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_there_is_one_workflow_for_each_depth_of_testing_and_one_for_releases() -> None:
    assert [path.stem for path in WORKFLOWS] == ["check", "nightly", "release", "test"]


def test_actionlint_finds_nothing() -> None:
    try:
        program = TOOLS["actionlint"].build()
    except EnvironmentFaultError as error:
        pytest.skip(str(error))
    done = lint(program, *WORKFLOWS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_workflow_with_a_mistake_is_refused(tmp_path: Path) -> None:
    try:
        program = TOOLS["actionlint"].build()
    except EnvironmentFaultError as error:
        pytest.skip(str(error))
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "runs-at:"))
    done = lint(program, broken)
    assert done.returncode == 1
    assert "runs-at" in done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_runs_is_there(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPO / "Makefile").read_text(), re.MULTILINE))
    commands = re.findall(r"^ +run: (.+)$", path.read_text(), re.MULTILINE)
    assert commands
    for command in commands:
        program, argument, *more = command.split()
        if (program, argument) == ("python", "-m"):
            assert (REPO / f"{more[0].replace('.', '/')}.py").exists()
        else:
            assert argument in targets if program == "make" else (REPO / argument).exists()


def test_only_what_publishes_may_prove_who_it_is_and_it_waits_for_all_and_for_a_person() -> None:
    jobs = re.split(r"^  (?=[a-z]+:$)", WORKFLOWS[2].read_text(), flags=re.MULTILINE)
    (publish,) = [job for job in jobs if "id-token" in job]
    assert publish.startswith("publish:")
    assert "needs: [test, build]" in publish
    assert "environment: pypi" in publish
    assert "if: github.ref_type == 'tag'" in publish
