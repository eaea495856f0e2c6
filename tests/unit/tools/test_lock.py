from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tools.bootstrap import REPO
from tools.lock import LOCK, RUNTIME, problems, read_pins


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The three files as they are, to drift apart."""
    for name in ("pyproject.toml", LOCK, RUNTIME):
        shutil.copy(REPO / name, tmp_path / name)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.search(old, text, re.MULTILINE), f"nothing to drift: {old}"
    path.write_text(re.sub(old, new, text, count=1, flags=re.MULTILINE), encoding="utf-8")


@pytest.mark.long
def test_the_committed_files_agree() -> None:
    assert problems(REPO) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("pyproject.toml", r'"duckdb>=.*"', '"duckdb>=900"', "for `duckdb>=900`"),
        ("pyproject.toml", r'"rich>=', '"left-pad>=1",\n"rich>=', "pins nothing for `left-pad>=1`"),
        ("pyproject.toml", r'"ruff>=.*"', '"ruff>=900"', f"{LOCK} pins .* for `ruff>=900`"),
        ("pyproject.toml", r'"hatchling>=.*"', '"hatchling>=900"', f"{LOCK} pins .* for `hatchl"),
        ("pyproject.toml", r'"rich>=[\d.]+"', '"rich>=13"', f"{LOCK} was made from other"),
        ("pyproject.toml", r'"pyspark-client"', '"py4j"', f"{LOCK} pins py4j, .* excludes"),
        (LOCK, r"^duckdb==\S+", "duckdb==2.99.0", f"{RUNTIME} pins duckdb .* otherwise than"),
        (LOCK, r"--hash=sha256:\w{8}", "--hash=sha256:00000000", "otherwise than"),
        (RUNTIME, r"--hash=sha256:\w{8}", "--hash=sha256:00000000", "otherwise than"),
        (RUNTIME, r"^duckdb==(.*\n)(    --hash.*\n)+", "", f"{RUNTIME} pins nothing for `duckdb"),
        (RUNTIME, r"^duckdb==(\S+).*\n(    --hash.*\n)+", r"duckdb==\1\n", "has no hash of duckdb"),
        (RUNTIME, r"^# declarations.*\n", "", f"{RUNTIME} was made from other declarations"),
        (LOCK, r"^duckdb==", "--index-url https://mirror.example\nduckdb==", "names an address"),
    ],
)
def test_every_kind_of_drift_is_named(
    copy: Path, file: str, old: str, new: str, problem: str
) -> None:
    edit(copy / file, old, new)
    found = problems(copy)
    assert any(re.search(problem, line) for line in found), found


def test_the_lock_holds_one_copy_of_pyspark() -> None:
    names = read_pins(REPO / LOCK).versions()
    assert "pyspark" in names
    assert "pyspark-client" not in names


@pytest.mark.parametrize("name", [LOCK, RUNTIME])
def test_a_locked_file_names_no_address(name: str) -> None:
    pins = read_pins(REPO / name)
    assert pins.pins
    assert pins.addresses == []


def test_a_pin_of_the_image_may_have_a_condition_that_developers_do_not_have(copy: Path) -> None:
    edit(copy / RUNTIME, r"^duckdb==(\S+)", r"duckdb==\1 ; sys_platform == 'linux'")
    assert problems(copy) == []


def test_markers_and_hashes_are_read(tmp_path: Path) -> None:
    file = tmp_path / "pins.txt"
    one, two = "sha256:" + "a" * 64, "sha256:" + "b" * 64
    file.write_text(
        f"Num_Py==2.4 ; python_full_version < '3.12' \\\n    --hash={one} \\\n    --hash={two}\n"
        f"rich==15.0.0 \\\n    --hash={one}\n"
    )
    assert read_pins(file).pins == {
        ("num-py", "2.4", "python_full_version < '3.12'"): {one, two},
        ("rich", "15.0.0", ""): {one},
    }
