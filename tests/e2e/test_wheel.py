"""The wheel in an empty environment: the core alone, without Airflow and Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.bootstrap import REPO, ensure_uv

ABSENT = ("airflow", "pyspark", "polars", "deltalake", "pandas")
MIB = 2**20


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment that has the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = str(ensure_uv())
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=REPO, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    assert wheel.stat().st_size < 2 * MIB
    home = folder / "env"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    subprocess.run([uv, "venv", "-q", "-p", version, str(home)], check=True)
    lock = ["-c", str(REPO / "requirements.lock")]
    python = str(home / "bin" / "python")
    subprocess.run([uv, "pip", "install", "-q", "--python", python, *lock, str(wheel)], check=True)
    return home / "bin"


def run(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "FIRNLINE_TABLES")}
    return subprocess.run(
        [str(program), *arguments], cwd=cwd, env=kept, capture_output=True, text=True, check=False
    )


def test_the_core_brings_neither_airflow_nor_spark(installed: Path, tmp_path: Path) -> None:
    code = f"from importlib.util import find_spec; print([n for n in {ABSENT!r} if find_spec(n)])"
    assert run(installed / "python", "-c", code, cwd=tmp_path).stdout.strip() == "[]"


def test_a_table_is_appended_to_merged_and_read(installed: Path, tmp_path: Path) -> None:
    code = f"""
import firnline
for hour in range(4):
    with firnline.Appender("file://{tmp_path}/flights") as flights:
        flights.append([{{"hour": hour, "delay": 90}}, {{"hour": hour, "delay": 5}}])
"""
    appended = run(installed / "python", "-c", code, cwd=tmp_path)
    assert (appended.returncode, appended.stderr) == (0, "")
    root = f"file://{tmp_path}/flights"
    merged = run(installed / "firnline", "merge", root, cwd=tmp_path)
    assert "4 parts → 1" in merged.stdout, merged.stderr
    read = run(installed / "firnline", "read", root, "--where", "delay > 60", cwd=tmp_path)
    assert read.stdout.count(" 90") == 4, read.stdout + read.stderr
    checked = run(installed / "firnline", "verify", root, "--deep", cwd=tmp_path)
    assert (checked.returncode, "found         nothing" in checked.stdout) == (0, True)


def test_what_an_extra_is_needed_for_says_which(installed: Path, tmp_path: Path) -> None:
    root = f"file://{tmp_path}/t"
    code = f"import firnline; a = firnline.Appender('{root}'); a.append([{{'a': 1}}]); a.close()"
    assert run(installed / "python", "-c", code, cwd=tmp_path).returncode == 0
    code = f"import firnline; firnline.scan('{root}').polars()"
    failed = run(installed / "python", "-c", code, cwd=tmp_path).stderr
    assert "pip install 'polars>=" in failed
