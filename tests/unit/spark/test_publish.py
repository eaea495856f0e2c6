from __future__ import annotations

import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import firnline
from firnline.errors import StoreAccessError, UsageError
from firnline.launch.package import ENVIRONMENT, Manifest
from firnline.spark.pack import closure
from firnline.spark.publish import Published, publish
from firnline.store.access import StoreAccess
from firnline.store.client import ObjectClient, open_store

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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ObjectClient]:
    """The stores that are opened, which count their requests."""
    opened: list[ObjectClient] = []

    def open_one(root: str, access: StoreAccess | None) -> ObjectClient:
        opened.append(open_store(root, access))
        return opened[-1]

    monkeypatch.setattr("firnline.spark.publish.open_store", open_one)
    return opened


def requests(asked: list[ObjectClient]) -> tuple[int, int, int]:
    (store,) = asked
    counted = store.counters
    assert (counted.head, counted.delete) == (0, 0)
    return counted.list, counted.get, counted.put


def contents(made: Published) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder(made).iterdir() if each.is_file()}


def test_a_new_package_is_listed_once_and_put(tmp_path: Path, asked: list[ObjectClient]) -> None:
    made = publish(f"file://{tmp_path}/new/firnline", None, aws=False)
    assert (made.written, made.repaired, len(contents(made))) == (True, (), 4)
    assert requests(asked) == (1, 0, 4)


def test_publishing_the_same_again_writes_nothing(
    made: Published, root: Path, asked: list[ObjectClient]
) -> None:
    again = publish(f"file://{root}/firnline", None, aws=False)
    assert (again.url, again.written, again.repaired) == (made.url, False, ())
    assert requests(asked) == (1, 1, 0)


@pytest.mark.parametrize("damage", ["gone", "short", "junk"])
@pytest.mark.parametrize("names", [("run.py",), ("environment.tar.gz", "manifest.json"), ()])
def test_what_is_missing_or_damaged_is_written_again_with_the_same_bytes(
    made: Published, root: Path, asked: list[ObjectClient], damage: str, names: tuple[str, ...]
) -> None:
    before = contents(made)
    for name in names or before:
        path = folder(made) / name
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes(b"" if damage == "short" else b"junk")
    again = publish(f"file://{root}/firnline", None, aws=False)
    assert contents(again) == before
    assert again.url == made.url
    assert again.written
    if names or damage != "gone":
        assert set(again.repaired) == set(names or before)
        assert again.repaired[-1] == ("manifest.json" if "manifest.json" in again.repaired else
                                      "run.py")  # fmt: skip
    else:
        assert again.repaired == ()
    assert requests(asked)[2] == len(names or before)


def test_a_manifest_of_the_same_size_that_says_something_else_is_written_again(
    made: Published, root: Path
) -> None:
    path = folder(made) / "manifest.json"
    before = path.read_bytes()
    path.write_bytes(before.replace(b"linux", b"minix"))
    assert publish(f"file://{root}/firnline", None, aws=False).repaired == ("manifest.json",)
    assert path.read_bytes() == before


def test_objects_of_jobs_are_no_part_of_a_package(made: Published, root: Path) -> None:
    job = folder(made) / "jobs" / "firnline-merge-00" / "1.request.json"
    job.parent.mkdir(parents=True)
    job.write_text("{}")
    assert not publish(f"file://{root}/firnline", None, aws=False).written
    assert job.read_text() == "{}"


def test_hidden_files_and_what_is_no_code_are_in_neither_wheel_nor_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "sources" / "firnline"
    ours = Path(firnline.__file__).parent
    shutil.copytree(ours, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".env", "store/.secret.py", ".git/config.py", "dump.parquet", "launch/a.py.orig"):
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("hunter2secret")
    monkeypatch.setattr("firnline.__file__", str(copy / "__init__.py"))
    made = publish(f"file://{tmp_path}/new", None, aws=False)
    (wheel,) = folder(made).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive, tarfile.open(folder(made) / ENVIRONMENT) as packed:
        wheeled = {name for name in archive.namelist() if name.startswith("firnline/")}
        archived = {name for name in packed.getnames() if name.startswith("firnline/")}
    files = [each for each in ours.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    assert wheeled == archived == {each.relative_to(ours.parent).as_posix() for each in files}


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


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "is not the URL of a folder"),
        ("/srv/firnline", "is not the URL of a folder"),
        ("s3:/b/firnline", "is not the URL of a folder"),
        ("az://c/firnline", "no platform reads a package at az://c/firnline"),
        ("memory://firnline", "no platform reads a package"),
        ("s3://key:hush@b/firnline", "a URL holds no credentials"),
    ],
)
def test_what_is_no_url_of_a_package_is_refused_before_anything_is_packed(
    url: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firnline.spark.publish.pack", None)
    with pytest.raises(UsageError, match=why) as raised:
        publish(url, None)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("name", ["file", "closed"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_packed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firnline.spark.publish.pack", None)
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir()
    monkeypatch.setattr("os.access", lambda path, _: Path(path).name != "closed")
    with pytest.raises(StoreAccessError, match=f"nothing can be published at .*/{name}/a/b"):
        publish(f"file://{tmp_path}/{name}/a/b", None)
    assert {each.name for each in tmp_path.iterdir()} == {"file", "closed"}


def test_a_store_that_refuses_is_heard_before_anything_is_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreAccessError("no credentials", next_step="give some")

    monkeypatch.setattr("firnline.spark.publish.pack", None)
    monkeypatch.setattr(ObjectClient, "list", refuse)
    with pytest.raises(StoreAccessError, match="no credentials"):
        publish("s3://lake/firnline", StoreAccess(access_key="a", secret_key="b"))
