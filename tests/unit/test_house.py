"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from firnline.airflow import versions
from tools.bootstrap import REPO, UV_VERSION
from tools.docnames import stale

CODE = ("include", "dags", "plugins", "spark_jobs", "simulation", "demo", "tools")
REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted|proxy\.golang|crates\.io|npmjs|repo1?\.maven|deb\.debian"
)
MACHINE = re.compile(r"(?<![\w.])/(?:work|root)/")


def code_files() -> Iterator[Path]:
    for folder in CODE:
        yield from sorted((REPO / folder).rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    return str(path.relative_to(REPO))


def tracked_text_files() -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPO, check=True, capture_output=True, text=True
    )
    for line in filter(None, listed.stdout.split("\0")):
        path = REPO / line
        if path.is_file() and path != Path(__file__) and b"\0" not in path.read_bytes()[:8192]:
            yield path


@pytest.mark.long
def test_no_folder_holds_a_module_and_pieces_cut_off_it() -> None:
    # What belongs to x stands in x.py, or x is a package.
    stems = [(path.parent, path.stem) for path in code_files() if path.name != "__init__.py"]
    assert stems
    pieces = [
        f"{name(folder)}: {one}.py and {other}.py"
        for folder, one in stems
        for beside, other in stems
        if folder == beside and other.startswith(f"{one}_")
    ]
    assert pieces == []


def imported(path: Path, modules: frozenset[str]) -> Iterator[str]:
    """Modules of the product that a file imports as it runs, inside functions, too."""
    pending: list[ast.AST] = [parsed(path)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            yield node.module
        if isinstance(node, ast.ImportFrom):
            yield from modules & {f"{node.module}.{alias.name}" for alias in node.names}
        pending.extend(ast.iter_child_nodes(node))


@pytest.mark.long
def test_no_modules_import_each_other_in_a_circle() -> None:
    root = REPO / "include"
    paths = {".".join(p.relative_to(root).with_suffix("").parts): p for p in root.rglob("*.py")}
    modules = frozenset(paths)
    graph = TopologicalSorter({m: set(imported(p, modules)) - {m} for m, p in paths.items()})
    assert len(list(graph.static_order())) == len(paths)  # raises CycleError, which names it


def room(module: str) -> str | None:
    """A package of ``firnline.operations`` or a module beside them; None: neither."""
    found = re.match(r"firnline\.operations\.(\w+)", module)
    return found and found[1]


@pytest.mark.long
def test_no_packages_of_operations_import_each_other_in_a_circle() -> None:
    # Whoever reads one room of two that need each other has to read both: they are one, or what
    # both need stands beside them. The modules beside them are rooms, too: a package that needs a
    # second one through them needs it all the same.
    root = REPO / "include"
    paths = {".".join(p.relative_to(root).with_suffix("").parts): p for p in root.rglob("*.py")}
    needs: dict[str, set[str]] = {}
    for module, path in paths.items():
        if (here := room(module)) is not None:
            there = {room(other) for other in imported(path, frozenset(paths))} - {None, here}
            needs.setdefault(here, set()).update(filter(None, there))
    assert len(needs) > 20
    assert set(TopologicalSorter(needs).static_order()) == set(needs)  # raises CycleError


@pytest.mark.long
def test_docstrings_name_what_is_there() -> None:
    assert [str(each) for each in stale()] == []


def moved(path: Path) -> Iterator[str]:
    """What a file imports from Airflow itself though it stands elsewhere in another version."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow."):
            names = {alias.name for alias in node.names}
            found = names & versions._PLACES.keys()
            found |= names if node.module in MOVED_MODULES else set()
            yield from (f"{name(path)}: {node.module}.{each}" for each in found)


MOVED_MODULES = ("airflow.sdk.configuration", "airflow.observability", "airflow.stats")


@pytest.mark.long
def test_names_that_have_moved_between_airflows_come_from_one_module() -> None:
    tests = (REPO / "tests").rglob("*.py")
    files = {*code_files(), *tests} - {REPO / "include/firnline/airflow/versions.py"}
    assert sorted(each for path in files for each in moved(path)) == []


FRONT_DOORS = [
    REPO / "include" / "firnline" / "__init__.py",
    REPO / "include" / "firnline" / "airflow" / "__init__.py",
    REPO / "include" / "firnline" / "spark" / "__init__.py",
]
"""Packages with something in them: names that users call, imported when asked for."""


def test_no_package_says_anything_at_import() -> None:
    packages = [p for p in code_files() if p.name == "__init__.py" and p not in FRONT_DOORS]
    assert [name(path) for path in packages if path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("package", ["firnline", "firnline.airflow", "firnline.spark"])
def test_a_front_door_imports_nothing_until_a_name_is_asked_for(package: str) -> None:
    # Airflow parses DAG files again and again, and each of them imports firnline.
    code = "import sys, PACKAGE; print([n for n in sys.modules if n.startswith(PREFIXES)])"
    prefixes = ("firnline.", "duckdb", "pyarrow", "polars", "obstore", "pydantic", "fsspec", "py4j")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            code.replace("PREFIXES", repr(prefixes)).replace("PACKAGE", package),
        ],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPO / "include")},
    )
    assert done.stdout.strip() == str([package] if "." in package else [])


SAID_TWICE = {
    # Pieces of sentences about different things, each with names and a next step of its own.
    " is committed, and its log file is not published yet",  # a clone, a rebuild
    " old objects of the mirror could not be deleted",  # of Delta, of Iceberg
    " differs only in the case of its letters from ",  # a column of a file, of the log
    " of parts could not be rewritten; the first, ",  # a delete, a replace
    ": also hides such rows of appends under way",  # a delete, a replace
    " is compared with null, which is never true",  # an interval, a condition
    " nor its settings name a column of times",  # a timeline, a replace
}


def sentences(path: Path) -> Iterator[str]:
    """Texts of 40 characters and more with spaces, which are sentences or SQL; no docstrings."""
    tree = parsed(path)
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documented:
            text = node.value
            if isinstance(text, str) and len(text) >= 40 and text.count(" ") > 2:
                yield text


@pytest.mark.long
def test_no_sentence_and_no_sql_stands_in_two_modules_of_the_product() -> None:
    # A rule or a next step that two modules state changes in one of them: import it from its owner
    # (for next steps firnline.next_steps).
    places: dict[str, set[str]] = {}
    for path in sorted((REPO / "include" / "firnline").rglob("*.py")):
        for text in sentences(path):
            places.setdefault(text, set()).add(name(path))
    twice = {text: sorted(of) for text, of in places.items() if len(of) > 1}
    assert {text: of for text, of in twice.items() if text not in SAID_TWICE} == {}
    assert twice.keys() >= SAID_TWICE, "take out what is said once by now"


@pytest.mark.long
def test_no_file_names_a_registry_or_this_machine() -> None:
    found = [
        f"{name(path)}:{number}: {line.strip()[:80]}"
        for path in tracked_text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if REGISTRIES.search(line) or MACHINE.search(line)
    ]
    assert found == []


def test_only_the_product_is_in_the_wheel() -> None:
    with (REPO / "pyproject.toml").open("rb") as file:
        wheel = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["include/firnline"]


def test_the_dockerfile_has_no_mistake_that_a_linter_finds() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [hadolint, "--failure-threshold", "warning", REPO / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_image_of_the_command_line_installs_the_uv_of_set_up() -> None:
    text = (REPO / "Dockerfile").read_text(encoding="utf-8")
    assert f" uv=={UV_VERSION} " in text


def test_everything_the_image_copies_is_in_the_repository() -> None:
    text = (REPO / "Dockerfile").read_text(encoding="utf-8")
    copied = [
        word
        for line in text.splitlines()
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
        if not word.startswith("--")
    ]
    assert copied
    assert [path for path in copied if not (REPO / path).exists()] == []
