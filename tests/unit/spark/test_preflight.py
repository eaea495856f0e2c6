"""Executors are asked once whether they have what a kernel needs; no part is blamed for it."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.errors import EnvironmentFaultError
from firnline.kernel import merge
from firnline.kernel.batches import Batch
from firnline.kernel.task import KernelResult
from firnline.spark import preflight
from firnline.spark.engine import _outcome
from firnline.spark.executors import ALWAYS
from firnline.spark.preflight import Ask, check, fault_of, is_this_python
from firnline.store.access import StoreAccess
from tests.kernel.conftest import Group
from tests.kernel.test_batches import tasks
from tests.support.session import Classic

KEYS = StoreAccess(access_key="a", secret_key="b")
CHAIN = StoreAccess()


class Conf(dict[str, str]):
    """What a session's conf does."""


@dataclass(eq=False)
class Session(Classic):
    """As much of a Spark session as asking takes."""

    conf: Conf = field(default_factory=lambda: Conf({"spark.master": "spark://host:7077"}))
    pythonExec: str = "python3"  # noqa: N815 -- Spark's


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


NO_PROGRAM = """: org.apache.spark.SparkException: Exception thrown in awaitResult:
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 1.0 in \
stage 0.0 (TID 1) (10.0.0.2 executor 3): java.io.IOException: Cannot run program "/no/python3"{}
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
"""
VERSIONS = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "pyspark.zip/pyspark/worker_util.py", line 93, in check_python_version
    raise PySparkRuntimeError(
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has \
different version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.
"""
NO_PYTHON = """Lost task 1.0 in stage 0.0: org.apache.spark.SparkException:
Bad data in pyspark.daemon's standard output. Invalid port number/socket path:
  762126448 (0x2d6d2070)
Python command to execute the daemon was:
  /bin/echo -m pyspark.daemon pyspark.worker
Check that you don't have any unexpected modules or libraries in
"""
ENDED = """Lost task 1.0 in stage 0.0: org.apache.spark.SparkException:
Error from python worker:
  {}
PYTHONPATH was:
  /spark/python/lib/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            NO_PROGRAM.format(": error=2, No such file or directory"),
            "cannot be started: /no/python3: No such file or directory; let spark.pyspark.python",
        ),
        (
            NO_PROGRAM.format(": Exec failed, error: 13 (Permission denied) "),
            "cannot be started: /no/python3: Permission denied; let spark.pyspark.python",
        ),
        (NO_PYTHON, "cannot be started: /bin/echo does not answer as a Python; let "),
        (ENDED.format("python3: No module named pyspark"), ": python3: No module named pyspark; "),
        (
            VERSIONS,
            (
                "the Spark executors run Python 3.12 and this driver Python 3.11, and Spark needs "
                "the same minor version in both; let spark.pyspark.python (or PYSPARK_PYTHON) name "
                "a Python 3.11 that every executor has; no part is at fault"
            ),
        ),
    ],
)
def test_a_python_that_is_of_no_use_is_named_at_the_start_and_on_an_executor_that_comes_later(
    text: str, said: str
) -> None:
    with pytest.raises(EnvironmentFaultError) as caught:
        asked(Session(error=RuntimeError(text)))
    assert said in str(caught.value)
    future: Future[list[KernelResult]] = Future()
    future.set_exception(RuntimeError(text))
    with pytest.raises(EnvironmentFaultError, match="let spark"):
        _outcome(future, Batch(tuple(tasks(10))))


@pytest.mark.parametrize(
    "text",
    [
        NO_PROGRAM.format(": error=12, Cannot allocate memory"),
        NO_PROGRAM.format(": error=11, Resource temporarily unavailable"),
        ENDED.format("MemoryError"),
        ENDED.format(""),
    ],
)
def test_a_python_that_finds_no_memory_may_start_at_the_next_attempt(text: str) -> None:
    assert fault_of(text) is None


@pytest.mark.parametrize(
    ("python", "sql_python", "is_this"),
    [
        (sys.executable, None, True),
        ("/another/bin/python", None, False),
        (sys.executable, "/another/bin/python", False),
        ("/another/bin/python", sys.executable, True),
    ],
)
def test_a_local_master_with_this_very_python_is_not_asked(
    python: str, sql_python: str | None, *, is_this: bool
) -> None:
    conf = Conf({"spark.master": "local[2]"})
    if sql_python is not None:
        conf["spark.sql.execution.pyspark.python"] = sql_python
    session = Session(conf=conf, pythonExec=python)
    asked(session)
    assert session.jobs == ([] if is_this else [2])


def test_a_python_is_this_one_by_any_name_of_its_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("python", "python3"):
        (tmp_path / name).symlink_to(Path(sys.executable).resolve())
    session = Session(conf=Conf({"spark.master": "local[2]"}), pythonExec="python3")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not is_this_python(session)  # type: ignore[arg-type] # another environment of it
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert is_this_python(session)  # type: ignore[arg-type] # a fake
    assert not is_this_python(Session(pythonExec="python3"))  # type: ignore[arg-type] # a cluster


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
    having(monkeypatch, {"duckdb": "1.4.2", "msgspec": "0.18.6"})
    with pytest.raises(EnvironmentFaultError) as caught:
        asked(Session())
    said = str(caught.value)
    assert "have duckdb 1.4.2 and msgspec 0.18.6, and firnline needs duckdb" in said
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
    broken = fault_of("ImportError: libduck.so: cannot open shared object file\n")
    assert "libduck.so" in str(broken)
    assert fault_of("ValueError: no") is None


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
