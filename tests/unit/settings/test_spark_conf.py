from __future__ import annotations

from pathlib import Path

import pytest

from firnline.settings.load import settings_for_root
from firnline.settings.spark_conf import archive_path, conf_of, with_defaults


def test_what_the_user_says_wins() -> None:
    conf = with_defaults({"spark.ui.enabled": "true", "spark.x": "1"})
    assert (conf["spark.ui.enabled"], conf["spark.x"]) == ("true", "1")
    assert "TieredStopAtLevel" in conf["spark.driver.extraJavaOptions"]


def test_an_executor_has_room_for_its_kernels_outside_of_the_jvm() -> None:
    conf = with_defaults({"spark.executor.cores": "4"}, kernel_memory=2**30, kernel_threads=2)
    assert conf["spark.task.cpus"] == "2"
    assert conf["spark.executor.memoryOverhead"] == f"{int(2 * 1.3 * 1024) + 384}m"
    least = with_defaults({}, kernel_memory=128 * 2**20)["spark.executor.memoryOverhead"]
    assert least == f"{128 + 64 + 384}m"  # 1.3 times would be less
    own = {"spark.executor.memoryOverheadFactor": "0.5"}
    assert "spark.executor.memoryOverhead" not in with_defaults(own, kernel_memory=2**30)


def test_an_application_for_a_table_gets_room_for_the_kernels_of_its_settings() -> None:
    settings = settings_for_root("file:///tmp/t")
    merge = settings.merge.model_copy(update={"kernel_memory": 2**30, "kernel_threads": 2})
    spark = settings.spark.model_copy(update={"conf": {"spark.executor.cores": "4"}})
    conf = conf_of(settings.model_copy(update={"merge": merge, "spark": spark}))
    assert conf == with_defaults({"spark.executor.cores": "4"}, 2**30, 2)


def test_a_class_archive_is_used_where_it_has_been_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_CACHE", str(tmp_path / "cache"))
    option = "spark.driver.extraJavaOptions"
    assert "SharedArchiveFile" not in with_defaults({})[option]
    archive_path().parent.mkdir()
    archive_path().touch()
    assert f"-XX:SharedArchiveFile={archive_path()}" in with_defaults({})[option]
    assert "SharedArchiveFile" not in with_defaults({option: "-Xmx1g"})[option]
