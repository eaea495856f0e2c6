"""Completion by the shell: its scripts, and what they offer for a line that is begun."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import PROGRAM, settings_file

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment with a settings file of three tables."""
    tables = "".join(
        f"  {name}: {{root: 's3://lake/{name}'}}\n" for name in ("a1", "events", "ev2")
    )
    path = settings_file(tmp_path, f"tables:\n{tables}")
    kept = {name: value for name, value in os.environ.items() if "COMPLETE" not in name}
    beside = f"{PROGRAM.parent}{os.pathsep}{kept['PATH']}"
    return {**kept, "FIRNLINE_TABLES": str(path), "PATH": beside, "HOME": str(tmp_path)}


def offered(env: dict[str, str], shell: str, line: str) -> list[str]:
    """Return what a shell is offered for the last word of a line."""
    asked = {"_FIRNLINE_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        asked |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    else:
        asked |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run([PROGRAM], env=env | asked, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    text = done.stdout
    if shell == "zsh":  # _arguments '*: :(("merge":"its help" ...))'
        text = text.replace("_arguments '*: :((", "").replace("))'", "")
        return [each.split('"')[1] for each in text.splitlines() if '"' in each]
    return [each.split("\t")[0] for each in text.split("\n") if each.strip()]


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_and_tables_are_completed(env: dict[str, str], shell: str) -> None:
    assert offered(env, shell, "firnline mer") == ["merge"]
    assert offered(env, shell, "firnline merge ev") == ["ev2", "events"]
    assert offered(env, shell, "firnline doctor a1 ev") == ["ev2", "events"]
    assert offered(env, shell, "firnline plan me") == ["merge"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_is_shown_and_read_by_it(env: dict[str, str], shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    # `; true`, or the shell would become the program, which then finds another one above it.
    shown = subprocess.run(
        [program, "-c", "firnline --show-completion; true"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    begin = {"bash": "complete ", "zsh": "compdef ", "fish": "complete --command firnline "}
    assert begin[shell] in shown.stdout
    assert "_FIRNLINE_COMPLETE=complete_" + shell in shown.stdout
    script = Path(env["HOME"]) / "script"
    script.write_text(shown.stdout)
    read = {"bash": [], "zsh": ["-n"], "fish": ["--no-execute"]}[shell]
    subprocess.run([program, *read, script], env=env, check=True)


def test_bash_completes_by_its_script(env: dict[str, str]) -> None:
    code = """
source <(firnline --show-completion)
COMP_WORDS=(firnline merge ev) COMP_CWORD=2
_firnline_completion firnline
echo "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "ev2 events\n"


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
def test_another_shell_is_refused_with_those_that_can(env: dict[str, str], option: str) -> None:
    command = ["sh", "-c", f"firnline {option}; exit $?"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    said = "there is no completion for this shell; start the command from bash, zsh or fish"
    assert done.stderr == f"firnline: {said}\n"


def test_installing_it_says_where(env: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", "firnline --install-completion; true"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"bash completion installed in {env['HOME']}/.bash_completions/firnline" in done.stdout
