from __future__ import annotations

import pytest

from firnline.errors import UsageError
from firnline.launch.package import PackagePaths
from firnline.settings.packages import refuse_other
from tests.support.launching import DIGEST, package


def test_driver_and_executors_import_from_the_environment() -> None:
    conf = package().complete({"spark.a": "b"}, "spark.yarn.appMasterEnv.")
    assert conf == {
        "spark.a": "b",
        "spark.yarn.appMasterEnv.PYTHONPATH": "./environment",
        "spark.executorEnv.PYTHONPATH": "./environment",
        "spark.archives": f"s3://b/firnline/1.2-{DIGEST}/environment.tar.gz#environment",
        "spark.firnline.ship": "false",
    }


def test_archives_of_the_user_stay() -> None:
    conf = package().complete({"spark.archives": "s3://b/own.zip"}, "spark.yarn.appMasterEnv.")
    assert conf["spark.archives"].startswith("s3://b/own.zip,s3://b/firnline/")


def test_a_python_that_is_sent_along_is_that_of_driver_and_executors() -> None:
    conf = package(python=True).complete({}, "spark.kubernetes.driverEnv.")
    for prefix in ("spark.kubernetes.driverEnv.", "spark.executorEnv."):
        assert conf[f"{prefix}PYSPARK_PYTHON"] == "./environment/python/bin/python3"


def test_keys_are_those_of_the_layout() -> None:
    paths = PackagePaths.of(f"s3://b/firnline/1.2-{DIGEST}")
    name = "firnline-merge-00-1"
    assert paths.file("run.py") == f"firnline/1.2-{DIGEST}/run.py"
    for key in (paths.request(name), paths.outcome(name), paths.cancel(name)):
        assert paths.name_of(key) == name
    assert package().wheel == f"s3://b/firnline/1.2-{DIGEST}/firnline-1.2-py3-none-any.whl"


@pytest.mark.parametrize("url", ["s3://b/firnline", "s3://b/1.2-xyz", "s3://b/1.2-0123456789AB"])
def test_another_folder_is_no_package(url: str) -> None:
    with pytest.raises(UsageError, match="names no published package"):
        refuse_other(url)
