from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firnline.errors import UsageError
from firnline.launch.package import Manifest
from firnline.spark.pack import closure
from firnline.spark.publish import Published, publish

pytestmark = pytest.mark.long
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module", autouse=True)
def few() -> Iterator[None]:
    """Packs a few small packages; tests/spark/test_platforms.py runs what the whole ones make."""
    kept = {"firnline", "msgspec", "tenacity"}

    def small(names: list[str]) -> dict[str, Any]:
        return {name: one for name, one in closure(names).items() if name in kept}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("firnline.spark.pack.closure", small)
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def made(root: Path) -> Published:
    return publish(f"file://{root}/firnline/", None, aws=False)


def folder(made: Published) -> Path:
    return Path(made.url.removeprefix("file://"))


def test_a_package_is_complete_once_its_manifest_is_there(made: Published) -> None:
    names = {each.name for each in folder(made).iterdir()}
    version = made.manifest.version
    assert names == {
        "run.py", "environment.tar.gz", f"firnline-{version}-py3-none-any.whl", "manifest.json",
    }  # fmt: skip
    read = msgspec.json.decode((folder(made) / "manifest.json").read_bytes(), type=Manifest)
    assert read == made.manifest
    assert made.url.endswith(f"/firnline/{version}-{made.manifest.digest}")
    assert (made.written, read.python, read.carries_python) == (True, HERE, False)


def test_the_environment_has_firnline_and_what_a_driver_imports(made: Published) -> None:
    with tarfile.open(folder(made) / "environment.tar.gz") as packed:
        names = packed.getnames()
    for name in ("firnline/spark/elsewhere.py", "msgspec/__init__.py", "tenacity/__init__.py"):
        assert name in names
    needed = closure(["firnline"])
    assert {"duckdb", "pyarrow", "pydantic"} <= needed.keys()
    assert not {"pyspark", "apache-airflow"} & needed.keys()


def test_the_wheel_is_one(made: Published) -> None:
    (wheel,) = folder(made).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (record,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        listed = {line.split(",")[0] for line in archive.read(record).decode().splitlines()}
        metadata = archive.read(record.replace("RECORD", "METADATA")).decode()
    assert names == listed
    assert "Name: firnline" in metadata
    assert "Requires-Dist: duckdb" in metadata


def test_publishing_the_same_again_writes_nothing(made: Published, root: Path) -> None:
    again = publish(f"file://{root}/firnline", None, aws=False)
    assert (again.url, again.written) == (made.url, False)


def test_a_dry_run_says_where_and_writes_nothing(made: Published, tmp_path: Path) -> None:
    planned = publish(f"file://{tmp_path}/new", None, aws=False, dry_run=True)
    assert planned.manifest == made.manifest
    assert not (tmp_path / "new").exists()


def python(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / f"python{HERE}").write_text("#!")
    (folder / "bin" / f"python{HERE}").chmod(0o755)
    (folder / "lib").mkdir()
    (folder / "lib" / "os.py").write_text("")
    return folder


def test_a_python_is_sent_along_and_makes_another_package(
    made: Published, root: Path, tmp_path: Path
) -> None:
    with_one = publish(f"file://{root}/firnline", None, aws=False, python=python(tmp_path / "p"))
    assert with_one.manifest.carries_python
    assert with_one.url != made.url
    with tarfile.open(folder(with_one) / "environment.tar.gz") as packed:
        assert packed.getmember(f"python/bin/python{HERE}").mode & 0o100
        assert "python/lib/os.py" in packed.getnames()


def test_what_is_no_python_alone_is_refused_before_anything_is_packed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"holds no bin/python{HERE}"):
        publish("file:///nowhere", None, python=tmp_path)
    usr = python(tmp_path / "usr")
    (usr / "games").mkdir()
    with pytest.raises(UsageError, match="it also has games"):
        publish("file:///nowhere", None, python=usr)


@pytest.mark.parametrize("url", ["", "/srv/firnline", "s3:/b/firnline"])
def test_what_is_no_url_is_refused_before_anything_is_packed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firnline.spark.publish.pack", None)
    with pytest.raises(UsageError, match="is not the URL of a folder"):
        publish(url, None)
