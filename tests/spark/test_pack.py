"""``firnline spark pack``: an archive that a Python with nothing else can run kernels from."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution, version
from pathlib import Path

import msgspec
import pyarrow as pa
import pyspark
import pytest

from firnline.errors import EnvironmentFaultError, UsageError
from firnline.kernel.task import KernelResult
from firnline.spark import pack as packing
from firnline.spark.engine import zip_package
from firnline.spark.executors import ALWAYS, CHAIN, READING, SOURCE, SPLITTING
from firnline.spark.pack import Packed, pack
from tests.kernel.conftest import Group
from tests.support.cli import inside


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path / "store", tmp_path / "scratch")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    patch = pytest.MonkeyPatch()
    patch.setattr(packing, "_LEVEL", 1)  # the level decides the time, not the content
    made = pack(tmp_path_factory.mktemp("packed") / "firnline-executors.tar.gz")
    patch.undo()
    return made


@pytest.fixture(scope="module")
def unpacked(packed: Packed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(packed.path) as archive:
        archive.extractall(folder, filter="data")
    return folder


def bare(code: str, *path: Path) -> str:
    """Run code by this Python without its site packages; only these places are importable."""
    start = f"import sys; sys.path += {[str(place) for place in path]!r}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", start + code],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_python_with_nothing_else_runs_a_kernel(
    unpacked: Path, tmp_path: Path, group: Group
) -> None:
    keys = group.put(pa.table({"a": [2]}), pa.table({"a": [1]}))
    task = group.task(keys, {"a": "BIGINT"}, sort=["a"], query="select * from _rows where a > 0")
    code = f"""
from firnline.spark.worker import KernelFunction
kernel = KernelFunction(({msgspec.json.encode(task)!r},), "file://{group.root}/table", None,
                        {str(group.scratch)!r})
print(*kernel(0))
"""
    said = bare(code, zip_package(tmp_path), unpacked)
    result = msgspec.json.decode(said, type=KernelResult)
    assert result.error is None
    assert group.read(result)["a"].to_pylist() == [1, 2]


def test_nothing_is_missing_that_executors_are_asked_for(unpacked: Path, tmp_path: Path) -> None:
    code = """
from firnline.spark.executors import ALWAYS, READING, SPLITTING
from firnline.spark.preflight import Ask
import json
print(json.dumps(Ask((*ALWAYS, READING, SPLITTING), boto3_unless_keys=True).found()))
import obstore.auth.boto3, pyarrow.parquet, firnline.kernel.query.worker, firnline.spark.footers
import firnline.spark.comparison
"""
    found = json.loads(bare(code, zip_package(tmp_path), unpacked))
    assert found == {name: version(name) for name in found}


def test_it_holds_these_packages_and_no_more(packed: Packed, unpacked: Path) -> None:
    assert {
        "boto3",
        "duckdb",
        "fsspec",
        "msgspec",
        "numpy",
        "obstore",
        "pyarrow",
        "tenacity",
    } <= set(packed.packages)
    others = {"apache-airflow", "firnline", "pydantic", "pyspark", "pandas", "pip", "sqlglot"}
    assert not others & set(packed.packages)
    infos = [folder.name for folder in unpacked.iterdir() if folder.name.endswith(".dist-info")]
    assert len(infos) == len(packed.packages)
    endings = {path.suffix for path in unpacked.rglob("*")}
    assert not endings & {".pyc", ".pyi", ".h", ".a", ".c"}


def test_with_the_source_executors_can_load_it(
    unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = packing.closure
    asked: list[str] = []

    def besides(names: list[str]) -> dict[str, Distribution]:
        asked[:] = names
        return whole([name for name in names if name in SOURCE])

    monkeypatch.setattr(packing, "closure", besides)
    target = tmp_path / "source.tar.gz"
    pack(target)
    assert not {*SOURCE} & {*asked}
    made = pack(target, source=True)
    assert asked == [*ALWAYS, READING, SPLITTING, CHAIN, *SOURCE]
    with tarfile.open(made.path) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    spark = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    code = """
import firnline.spark.format.read, firnline.spark.format.stream, firnline.spark.format.changes
import firnline.spark.format.write, firnline.spark.format.sink
"""
    bare(code, zip_package(tmp_path), unpacked, tmp_path / "source", *spark)


def test_without_aws_nothing_of_boto3_is_in_it() -> None:
    names = set(packing.closure(["duckdb", "obstore"]))
    assert names <= {"duckdb", "obstore", "typing-extensions"}
    assert "botocore" in packing.closure(["boto3"])


def test_one_installation_gives_one_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"msgspec": packing.closure(["msgspec"])["msgspec"]}
    monkeypatch.setattr(packing, "closure", lambda _: small)
    first, second = (pack(tmp_path / f"{name}.tar.gz").path.read_bytes() for name in "ab")
    assert first == second
    assert gzip.decompress(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "b.tar.gz"]


def test_what_cannot_be_packed_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not end in \.tar\.gz"):
        pack(tmp_path / "a.whl")
    with pytest.raises(UsageError, match="there is no folder"):
        pack(tmp_path / "none" / "a.tgz")
    with pytest.raises(EnvironmentFaultError, match="nothing-of-this-name is not installed here"):
        packing.closure(["nothing-of-this-name"])
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_to_put_into_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Packed(tmp_path / "x.tar.gz", 2**20, {"duckdb": "2.0.0"}, "3.11", "linux-x86_64")
    asked: list[dict[str, bool]] = []

    def pack_it(_: Path, **given: bool) -> Packed:
        asked.append({name: given[name] for name in ("aws", "source")})
        return made

    monkeypatch.setattr(packing, "pack", pack_it)
    assert inside(capsys)("spark", "pack", "--without-aws", "--with-source").code == 0
    said = inside(capsys)("spark", "pack").out
    assert asked == [{"aws": False, "source": True}, {"aws": True, "source": False}]
    assert "1.0 MiB" in said
    assert "Python 3.11 on linux-x86_64" in said
    assert f"spark.archives: file://{tmp_path}/x.tar.gz#firnline" in said
    assert "spark.executorEnv.PYTHONPATH: ./firnline" in said
