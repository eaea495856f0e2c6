"""The wheel and the sdist in empty environments: the core alone, without Airflow and Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools.bootstrap import REPO, ensure_uv
from tools.release import SHIPPED

ABSENT = ("airflow", "pyspark", "polars", "deltalake", "pandas")
LOCK = ("-c", str(REPO / "requirements.lock"))
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def build(kind: str, folder: Path) -> Path:
    """Return a wheel or an sdist of the repository."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=REPO, check=True, capture_output=True)
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The ``bin`` folder of an environment that has the wheel and what it requires."""
    uv, home = str(ensure_uv()), wheel.parent / "env"
    subprocess.run([uv, "venv", "-q", "-p", VERSION, str(home)], check=True)
    python = str(home / "bin" / "python")
    subprocess.run([uv, "pip", "install", "-q", "--python", python, *LOCK, str(wheel)], check=True)
    return home / "bin"


def run(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "FIRNLINE_TABLES")}
    return subprocess.run(
        [str(program), *arguments], cwd=cwd, env=kept, capture_output=True, text=True, check=False
    )


def test_the_wheel_is_as_large_as_the_page_says(wheel: Path) -> None:
    page = (REPO / "docs" / "python.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"The wheel has ([\d.]+) MB", page)
    assert wheel.stat().st_size / 10**6 == pytest.approx(float(said), rel=0.15), (
        "python -m benchmarks.footprint --write"
    )


def test_an_sdist_installs_what_the_wheel_does(wheel: Path, tmp_path: Path) -> None:
    sdist, there = build("sdist", tmp_path), tmp_path / "there"
    with tarfile.open(sdist) as archive:
        shipped = {name.partition("/")[2] for name in archive.getnames()}
    beside = {name for name in shipped if not name.startswith("include/firnline/")}
    assert beside - {".gitignore", "PKG-INFO"} == {*SHIPPED} - {"include/firnline"}
    command = [str(ensure_uv()), "pip", "install", "-q", "--no-deps", "-p", sys.executable]
    subprocess.run([*command, "--target", str(there), str(sdist)], check=True)
    with zipfile.ZipFile(wheel) as archive:
        wanted = {n: archive.read(n) for n in archive.namelist() if n.startswith("firnline/")}
    assert wanted
    assert {n: (there / n).read_bytes() for n in wanted} == wanted
    assert (there / "bin" / "firnline").is_file()


def test_the_demo_runs_from_the_wheel_as_a_tool_of_uv(wheel: Path, tmp_path: Path) -> None:
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    install = [str(ensure_uv()), "tool", "install", "-q", "-p", VERSION, *LOCK, f"{wheel}[demo]"]
    subprocess.run(install, cwd=tmp_path, check=True, env=os.environ | places)
    firnline = tmp_path / "bin" / "firnline"
    shown = run(firnline, "demo", cwd=tmp_path)
    assert (shown.returncode, shown.stderr.count("Traceback")) == (0, 0), shown.stderr
    assert "27,004 flights in 589 appends" in shown.stdout
    assert "  firnline health flights\n" in shown.stdout, "it can be looked around in"
    looked = run(firnline, "health", "flights", cwd=tmp_path / "firnline-demo")
    assert looked.stdout.count("\nflights ") == 1, looked.stderr


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
