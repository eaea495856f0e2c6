"""Executors are asked once whether they have what a kernel needs; no part is blamed for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.errors import EnvironmentFaultError
from firnline.kernel import merge
from firnline.kernel.task import KernelResult
from firnline.spark import preflight
from firnline.spark.batches import Batch
from firnline.spark.engine import _outcome
from firnline.spark.executors import ALWAYS
from firnline.spark.preflight import Ask, check, missing_module
from firnline.store.access import StoreAccess
from tests.kernel.conftest import Group
from tests.unit.spark.test_batches import tasks

KEYS = StoreAccess(access_key="a", secret_key="b")
CHAIN = StoreAccess()


class Conf(dict[str, str]):
    """What a session's conf does."""


@dataclass(eq=False)
class Session:
    """As much of a Spark session as asking takes."""

    conf: Conf = field(default_factory=lambda: Conf({"spark.master": "spark://host:7077"}))
    error: Exception | None = None
    jobs: list[int] = field(default_factory=list)
    _function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] | None = None

    def range(self, start: int, end: int, step: int, *, numPartitions: int) -> Session:  # noqa: N803
        self.jobs.append(numPartitions)
        return self

    def mapInArrow(self, function: Any, schema: str) -> Session:  # noqa: N802
        self._function = function
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802
        if self.error is not None:
            raise self.error
        assert self._function is not None
        return pa.Table.from_batches(list(self._function(iter([pa.record_batch({"id": [0]})]))))


def lacking(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    having(monkeypatch, dict.fromkeys(names))


def having(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str | None]) -> None:
    known = preflight._look
    monkeypatch.setattr(
        preflight,
        "_look",
        lambda name: (name, versions[name]) if name in versions else known(name),
    )


def asked(session: Session, access: StoreAccess | None = KEYS, root: str = "s3://b/t") -> None:
    check(session, root, access, 2)  # type: ignore[arg-type] # a fake


def test_executors_are_asked_once_per_application() -> None:
    session = Session()
    asked(session)
    asked(session)
    assert session.jobs == [2]
    asked(another := Session())
    assert another.jobs == [2]


def test_one_sentence_names_what_is_missing_and_how_it_gets_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacking(monkeypatch, "msgspec", "duckdb", "boto3")
    with pytest.raises(EnvironmentFaultError) as caught:
        asked(Session())
    said = str(caught.value)
    assert "the Spark executors lack the Python packages duckdb and msgspec;" in said
    assert "spark.pyspark.python" in said
    assert "`firnline spark pack`" in said
    assert "spark.archives" in said
    assert "drop the part" not in said


@pytest.mark.parametrize(
    ("root", "access", "needs"),
    [
        ("s3://b/t", CHAIN, True),
        ("s3://b/t", None, True),
        ("s3://b/t", KEYS, False),
        ("s3://b/t", StoreAccess(access_key="a", secret_key="b", role_arn="arn:x"), True),
        ("gs://b/t", None, False),
        ("file:///b/t", None, False),
    ],
)
def test_boto3_is_asked_for_where_credentials_come_from_the_chain(
    monkeypatch: pytest.MonkeyPatch, root: str, access: StoreAccess | None, *, needs: bool
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    lacking(monkeypatch, "boto3")
    if needs:
        with pytest.raises(EnvironmentFaultError, match="package boto3"):
            asked(Session(), access, root)
    else:
        asked(Session(), access, root)


def test_keys_in_the_environment_of_an_executor_need_no_boto3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacking(monkeypatch, "boto3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    asked(Session(), None)


def test_a_task_that_cannot_even_begin_is_the_same_sentence() -> None:
    text = "x\n  File y\nModuleNotFoundError: No module named 'firnline.spark'\n\tat org.apache"
    with pytest.raises(EnvironmentFaultError, match=r"lack the Python package firnline; leave"):
        asked(Session(error=RuntimeError(text)))
    with pytest.raises(RuntimeError, match="the cluster is gone"):
        asked(Session(error=RuntimeError("the cluster is gone")))


def test_a_local_master_with_this_very_python_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = Session(Conf({"spark.master": "local[2]"}))
    asked(session)
    assert session.jobs == []
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python")
    asked(session)
    assert session.jobs == [2]


def test_work_that_needs_another_package_asks_once_more() -> None:
    session = Session()
    asked(session)
    for _ in range(2):
        check(session, "s3://b/t", KEYS, 2, ["numpy"])  # type: ignore[arg-type] # a fake
    asked(session)
    assert session.jobs == [2, 2]


def test_a_version_that_firnline_does_not_work_with_is_named_beside_the_one_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    having(monkeypatch, {"duckdb": "1.4.2", "msgspec": "0.19.0"})
    with pytest.raises(EnvironmentFaultError) as caught:
        asked(Session())
    said = str(caught.value)
    assert "have duckdb 1.4.2 and msgspec 0.19.0, and firnline needs duckdb" in said
    assert "`firnline spark pack`" in said


def test_a_version_that_nobody_states_or_declares_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, {"duckdb": "", "obstore": "0.12.99"})
    asked(Session())


def test_of_a_package_that_lacks_another_one_that_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_there.py").write_text("import nothing_of_this_name.inner\n")
    (tmp_path / "broken_there.py").write_text("raise ImportError('no library')\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = Ask(("half_there", "broken_there", "msgspec"), boto3_unless_keys=False).found()
    assert {name for name, number in found.items() if number is None} == {
        "nothing_of_this_name",
        "broken_there",
    }
    assert found["msgspec"]


def test_asking_needs_none_of_the_packages_that_it_asks_for() -> None:
    code = "import sys, firnline.spark.preflight; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {*ALWAYS, "boto3", "pyspark", "packaging"}


def test_a_module_that_a_later_executor_lacks_ends_the_run_and_blames_no_part() -> None:
    future: Future[list[KernelResult]] = Future()
    future.set_exception(RuntimeError("a\nModuleNotFoundError: No module named 'boto3'\n"))
    for tries in (0, 1):
        with pytest.raises(EnvironmentFaultError, match="lack the Python package boto3"):
            _outcome(future, Batch(tuple(tasks(10, 10)), tries))
    broken = missing_module("ImportError: libduck.so: cannot open shared object file\n")
    assert "libduck.so" in str(broken)
    assert missing_module("ValueError: no") is None


def test_a_kernel_that_lacks_a_module_gives_no_result_of_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group(tmp_path / "store", tmp_path / "scratch")

    def lacks(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'duckdb'", name="duckdb")

    monkeypatch.setattr(merge, "stage", lacks)
    keys = group.put(pa.table({"a": [1]}))
    with pytest.raises(ModuleNotFoundError):
        group.run(group.task(keys, {"a": "BIGINT"}))
