"""Whatever the product or its docs tell people to run, the command line takes."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firnline.cli.app import root_command
from tools.bootstrap import REPO

ROOT: Any = root_command()
SOURCES = sorted(
    path
    for folder in ("include/firnline", "dags", "plugins", "spark_jobs")
    for path in (REPO / folder).rglob("*.py")
)
DOCS = sorted([*(REPO / "docs").rglob("*.md"), REPO / "README.md"])
_QUOTED = re.compile(r"`+(firnline [^`]+)`+")
_EXAMPLE = re.compile(r"^(?: {2,}|\$ | +\$ )(firnline [a-z][^#\n]*)", re.MULTILINE)
_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*)")
_WITH = re.compile(r"`(firnline [^`]+)` with (?:the |its |or without )?(--[a-z][a-z0-9-]*)")
_PROSE = {"needs", "reads", "wrote", "before", "itself", "metadata", "table", "hide", "knows"}
"""Words after the product's name that begin a sentence and no command."""
_OTHERS = {
    *("--begin", "--after", "--before"),  # what people try for the ends of an interval
    "--all-tables",  # what people try for all requests of erasure
    *("--master", "--conf", "--py-files", "--jars", "--archives"),  # spark-submit
    *("--conn-type", "--conn-host", "--conn-port", "--conn-extra"),  # airflow
    *("--conn-login", "--conn-password", "--subdir", "--dag-run-conf", "--from-date", "--to-date"),
    *("--force-reinstall", "--no-deps"),  # pip
    *("--max-active-runs", "--reprocess-behavior", "--run-backwards", "--remote"),
    *("--deploy-mode", "--name"),  # spark-submit, in steps of EMR
    *("--cluster-id", "--step-id", "--virtual-cluster-id", "--id"),  # aws
    *("--application-id", "--job-run-id", "--project", "--region"),  # aws, gcloud
    *("--firnline-request", "--firnline-name", "--script"),  # our jobs elsewhere, Glue
    *("--additional-python-modules", "--no-spark"),
    *("--certificate", "--seed"),  # verify_table.py, which is a program of its own
    *(
        "--approved-by",
        "--dag-id",
        "--run-id",
        "--task-id",
        "--try-number",
        "--user",
        "--options",
        "--debug",
        "--scratch",
        "--help",
    ),
}
"""Flags of other programs, and of our jobs for spark-submit."""


@functools.cache
def texts(path: Path) -> list[str]:
    """The string literals of a module; what is filled in stands as X."""
    return list(_texts(path))


def _texts(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    inside = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = (v.value if isinstance(v, ast.Constant) else "X" for v in node.values)
            yield "".join(map(str, pieces))
        elif isinstance(node, ast.Constant) and id(node) not in inside:
            yield str(node.value)


def commands_in(text: str) -> Iterator[str]:
    """``firnline …`` in back quotes, and lines of examples."""
    for pattern in (_QUOTED, _EXAMPLE):
        for found in pattern.finditer(text.replace("\\\n", " ")):
            words = found[1].split()
            if len(words) > 1 and words[1].strip(".,;:") not in _PROSE:
                yield " ".join(words)


def mistakes(line: str) -> list[str]:
    """What the command line does not know of a command."""
    first, *rest = re.split(r"\s(?:&&|\||>|and|or)\s", line)[0].split()[1:]
    command = ROOT
    for word in (first, *rest):
        below = _below(command)
        if not below:
            break
        if word in below:
            command = below[word]
            continue
        if command is ROOT and not word.startswith("-") and word.islower():
            return [f"no command {word}"]
        break
    known = {
        flag for each in _all(command) for p in each.params for flag in (*p.opts, *p.secondary_opts)
    }
    return [flag for flag in _FLAG.findall(line) if flag not in {*known, "--help"}]


def _below(command: Any) -> dict[str, Any]:
    """Subcommands; typer may bring a click of its own, so no class is asked."""
    return getattr(command, "commands", {})


def _all(command: Any) -> Iterator[Any]:
    yield command
    for sub in _below(command).values():
        yield from _all(sub)


EVERY_FLAG = {
    flag for each in _all(ROOT) for p in each.params for flag in (*p.opts, *p.secondary_opts)
}


@pytest.mark.long
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPO)))
def test_every_command_that_the_product_recommends_is_there(path: Path) -> None:
    wrong = {
        line: found
        for text in texts(path)
        for line in commands_in(text)
        if (found := mistakes(line))
    }
    assert not wrong


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(REPO)))
def test_every_command_of_the_docs_is_there(path: Path) -> None:
    wrong = {line: found for line in commands_in(path.read_text()) if (found := mistakes(line))}
    assert not wrong


@pytest.mark.long
def test_no_text_names_a_flag_that_no_command_has() -> None:
    known = EVERY_FLAG | _OTHERS
    wrong = {
        (path.name, flag)
        for path in SOURCES
        for text in texts(path)
        for flag in _FLAG.findall(text)
        if flag not in known
    }
    assert not wrong


def test_a_flag_that_is_to_go_with_a_command_is_one_of_its() -> None:
    wrong = {
        (path.name, *found)
        for path in SOURCES
        for text in texts(path)
        for found in _WITH.findall(text)
        if mistakes(" ".join(found))
    }
    assert not wrong


def test_a_command_that_is_not_there_is_found() -> None:
    assert mistakes("firnline verify t --mend") == ["--mend"]
    assert mistakes("firnline mend t") == ["no command mend"]
    assert list(commands_in("run `firnline verify t --deep` now; firnline needs it")) == [
        "firnline verify t --deep"
    ]
