from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from firnline.kernel.task import KernelResult
from firnline.spark.engine import zip_package
from firnline.spark.worker import KernelFunction
from tests.kernel.conftest import Group


def test_the_number_of_a_task_comes_in_and_its_result_goes_out(tmp_path: Path) -> None:
    group = Group(tmp_path / "store", tmp_path / "scratch")
    keys = group.put(pa.table({"a": [2]}), pa.table({"a": [1]}))
    todo = [group.task(keys, {"a": "BIGINT"}, group=n, sort=["a"]) for n in range(2)]
    texts = tuple(msgspec.json.encode(task) for task in todo)
    kernel = KernelFunction(texts, f"file://{group.root}/table", None, str(group.scratch))
    found = [
        msgspec.json.decode(text, type=KernelResult) for number in (0, 1) for text in kernel(number)
    ]
    assert [(result.group, result.error) for result in found] == [(0, None), (1, None)]
    assert group.read(found[0])["a"].to_pylist() == [1, 2]


def test_credentials_are_not_in_the_text_of_the_function() -> None:
    kernel = KernelFunction((), "s3://bucket/t", '{"secret_key":"hidden"}', None)
    assert "hidden" not in repr(kernel)


@pytest.mark.long
def test_the_zip_for_executors_is_importable_as_it_is(tmp_path: Path) -> None:
    """Without site packages of this environment's firnline: the zip comes first."""
    target = zip_package(tmp_path)
    with zipfile.ZipFile(target) as archive:
        assert "firnline/spark/worker.py" in archive.namelist()
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r});"
        "import firnline.spark.worker as w; print(w.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )
    assert done.stdout.strip().startswith(str(target))


@pytest.mark.long
def test_a_worker_imports_no_pyspark_and_no_settings() -> None:
    """Every import is paid in every executor process, before the first byte is fetched."""
    code = "import sys, firnline.spark.worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"pyspark", "pydantic", "pandas", "sqlglot", "boto3", "botocore", "yaml"}
