"""docs/deploy.md: its files parse, its settings are settings, its commands are commands."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from firnline.cli.app import root_command
from firnline.settings.load import TableSettings
from tests.support.tables import loaded
from tools.bootstrap import REPO

TEXT = (REPO / "docs" / "deploy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(yaml|python)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
YAML = [body for kind, body in BLOCKS if kind == "yaml"]
PYTHON = [body for kind, body in BLOCKS if kind == "python"]


def test_the_files_parse() -> None:
    values, job, *_ = (yaml.safe_load(body) for body in YAML)
    assert values["images"]["airflow"] == {"repository": "registry/firnline", "tag": "1"}
    secrets = {each["secretKey"] for each in values["secret"]}
    assert all(f"--from-literal={key}=" in TEXT for key in secrets)
    assert job["kind"] == "Job"
    (extra,) = [body for body in YAML if body.startswith("extraEnv")]
    assert yaml.safe_load(yaml.safe_load(extra)["extraEnv"])[0]["name"] == "SPARK_LOCAL_HOSTNAME"
    assert all(ast.parse(body) for body in PYTHON)


@pytest.mark.parametrize("body", [body for body in YAML if body.startswith("tables:")])
def test_the_settings_are_settings(body: str, tmp_path: Path) -> None:
    table: TableSettings = loaded(tmp_path, body).table("events")
    assert f"airflow connections add {table.spark.conn_id} " in TEXT
    assert all(key.startswith("spark.") for key in table.spark.conf)


def test_every_firnline_command_is_one() -> None:
    names = set(getattr(root_command(), "commands", {}))
    called = re.findall(r"(?:^ {4}|\"|sh, -c, \")firnline ([a-z]+)", TEXT, re.MULTILINE)
    assert {"pools", "settings", "merge"} <= set(called) <= names


def test_the_image_gets_a_java_that_spark_takes() -> None:
    packages = (REPO / "packages.txt").read_text(encoding="utf-8").split()
    assert packages == ["openjdk-17-jre-headless"]


def test_what_is_said_of_the_lock_holds() -> None:
    lock = (REPO / "requirements.txt").read_text(encoding="utf-8")
    assert "apache-airflow-providers-apache-spark==" in lock
    assert "apache-airflow-providers-cncf-kubernetes" not in lock
    version = re.search(r"^apache-airflow==(\S+)", lock, re.MULTILINE)
    assert version is not None
    assert f"airflowVersion: {version[1]}" in TEXT
