"""What the settings of platforms refuse: everything that each run would refuse, or cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from firnline.settings.launchers import SparkSettings
from firnline.settings.packages import refuse_other
from tests.support.tables import loaded, mistakes, one

PACKAGE = "s3://b/firnline/1.2-0123456789ab"
ROLE = "arn:aws:iam::123456789012:role/firnline"
SERVERLESS = {"application": "a", "role": ROLE}
IN_YAML = f"emr_serverless: {{application: a, role: '{ROLE}'}}"
SECTIONS: dict[str, dict[str, Any]] = {
    "emr_serverless": SERVERLESS,
    "emr": {"cluster": "j-1"},
    "emr_on_eks": {"cluster": "v", "role": ROLE, "release": "emr-7.13.0-latest"},
    "glue": {"job": "firnline"},
    "dataproc": {"project": "p", "region": "r", "cluster": "c"},
    "databricks": {"cluster": "c"},
}


def refusal(**given: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        SparkSettings.model_validate(given)
    return str(raised.value)


def accepted(**given: Any) -> SparkSettings:
    return SparkSettings.model_validate(given)


# --- the package ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3://b/firnline", "names no published package"),
        ("s3://b/1.2-0123456789AB", "names no published package"),
        ("s3://b/fi//rn/1.2-0123456789ab", "an empty or relative segment"),
        ("az://b/firnline/1.2-0123456789ab", "no platform reads a package at az://"),
        ("/srv/1.2-0123456789ab", "write file:///srv/1.2-0123456789ab"),
    ],
)
def test_what_a_run_refuses_as_a_package_the_settings_refuse(url: str, why: str) -> None:
    assert why in refusal(package=url, emr=SECTIONS["emr"])


def test_a_slash_at_the_end_of_a_package_is_left_out_as_at_that_of_a_root() -> None:
    found = accepted(package=f"{PACKAGE}/", emr=SECTIONS["emr"]).package
    assert found == PACKAGE
    refuse_other(found)


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_platform_reads_packages_of_its_own_clouds(section: str, scheme: str) -> None:
    given = {"package": PACKAGE.replace("s3", scheme), section: SECTIONS[section]}
    reads = {"dataproc": ("gs",), "databricks": ("s3", "gs")}.get(section, ("s3",))
    if scheme in reads:
        assert accepted(**given).chosen == section.replace("_", "-")
    else:
        assert f"publish it to {' or '.join(f'{each}://' for each in reads)}" in refusal(**given)


def test_a_package_in_a_folder_goes_with_a_table_in_a_folder_only(tmp_path: Path) -> None:
    spark = f"spark: {{package: 'file:///mnt/1.2-0123456789ab', {IN_YAML}}}"
    said = mistakes(tmp_path, f"tables: {{t: {{root: 's3://b/t', {spark}}}}}")
    assert "does not read the package file:///mnt/1.2-0123456789ab of this machine" in said
    assert "publish it to s3://" in said
    loaded(tmp_path, f"tables: {{t: {{root: 'file:///mnt/t', {spark}}}}}")


def test_a_package_that_nothing_runs_is_told(tmp_path: Path) -> None:
    spark = f"{{package: '{PACKAGE}', {IN_YAML}}}"
    own = "{root: 's3://b/t', spark: {emr_serverless: null%s}}"
    text = f"defaults: {{spark: {spark}}}\ntables: {{t: {own}}}"
    said = mistakes(tmp_path, text % "")
    assert "no platform that runs it" in said
    assert "write launcher: spark-submit" in said
    table = loaded(tmp_path, text % ", launcher: spark-submit").table("t")
    assert table.spark.chosen == "spark-submit"


# --- credentials ----------------------------------------------------------------------------------

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    "given",
    [
        {"package": f"s3://key:{SECRET}@b/firnline/1.2-0123456789ab"},
        {"package": f"s3:/key:{SECRET}@b/firnline/1.2-0123456789ab"},
        {"package": f"https://key:{SECRET}@b/firnline/1.2-0123456789ab"},
        {"emr_serverless": {**SERVERLESS, "logs": f"s3://key:{SECRET}@b/logs"}},
        {"emr_on_eks": {**SECTIONS["emr_on_eks"], "logs": f"s3://key:{SECRET}@b/logs"}},
        {"conf": {"spark.hadoop.fs.s3a.secret.key": SECRET}},
        {"databricks": {"new_cluster": {"spark_conf": {"spark.hadoop.fs.s3a.secret.key": SECRET}}}},
        {"databricks": {"new_cluster": {"spark_env_vars": {"AWS_SECRET_ACCESS_KEY": SECRET}}}},
        {"databricks": {"new_cluster": {"spark_env_vars": {"URL": f"https://u:{SECRET}@h"}}}},
        {"databricks": {"new_cluster": {"docker_image": {"basic_auth": {"password": SECRET}}}}},
        {"databricks": {"new_cluster": {"init_scripts": [{"s3": {"a": f"s3://k:{SECRET}@b"}}]}}},
    ],
)
def test_credentials_are_refused_wherever_they_stand_and_are_not_repeated(
    given: dict[str, Any],
) -> None:
    with pytest.raises(ValidationError) as raised:
        SparkSettings.model_validate({"package": PACKAGE, **given})
    (mistake,) = raised.value.errors(include_url=False)
    said = mistake["msg"]
    assert "credential" in said
    assert SECRET not in said


def test_a_new_cluster_may_name_secrets_that_databricks_keeps() -> None:
    cluster = {
        "num_workers": 2,
        "aws_attributes": {"instance_profile_arn": "arn:aws:iam::1:instance-profile/p"},
        "spark_conf": {"spark.hadoop.fs.s3a.secret.key": "{{secrets/lake/key}}"},
        "spark_env_vars": {"AWS_SECRET_ACCESS_KEY": "{{secrets/lake/key}}"},
    }
    found = accepted(package=PACKAGE, databricks={"new_cluster": cluster})
    assert found.databricks is not None
    assert found.databricks.new_cluster == cluster


@pytest.mark.parametrize("key", ["spark_conf", "spark_env_vars"])
@pytest.mark.parametrize("value", [None, [], "a=b", {"a": None}, {"a": {"b": 1}}])
def test_settings_of_a_new_cluster_that_no_run_can_send_are_refused(key: str, value: Any) -> None:
    assert key in refusal(package=PACKAGE, databricks={"new_cluster": {key: value}})


def test_their_values_are_texts_as_those_of_conf_are() -> None:
    conf = {"spark.speculation": True, "spark.executor.cores": 4}
    found = accepted(package=PACKAGE, databricks={"new_cluster": {"spark_conf": conf}}).databricks
    assert found is not None
    assert found.new_cluster is not None
    texts = {"spark.speculation": "true", "spark.executor.cores": "4"}
    assert found.new_cluster["spark_conf"] == texts


# --- which launcher -------------------------------------------------------------------------------


@pytest.mark.parametrize("launcher", [None, "spark-submit", "emr"])
def test_a_python_that_no_job_uses_is_refused(launcher: str | None) -> None:
    given = {"python": "/opt/python", "launcher": launcher, "package": PACKAGE}
    section = {"emr": SECTIONS["emr"]} if launcher == "emr" else {}
    assert "with it write launcher: none, or connect" in refusal(**given, **section)
    for used in ("none", "connect"):
        assert accepted(python="/opt/python", launcher=used).python == "/opt/python"


def test_two_platforms_side_by_side_are_a_choice_to_make() -> None:
    both = {"package": PACKAGE, "emr": SECTIONS["emr"], "glue": SECTIONS["glue"]}
    assert "launcher: emr or glue" in refusal(**both)
    assert accepted(**both, launcher="glue").chosen == "glue"


def test_the_platform_of_a_table_wins_over_that_of_the_defaults(tmp_path: Path) -> None:
    for more in ("", ", launcher: emr-serverless"):
        spark = f"{{package: '{PACKAGE}', {IN_YAML}{more}}}"
        own = "{root: 's3://b/t', spark: {glue: {job: firnline}}}"
        found = loaded(tmp_path, f"defaults: {{spark: {spark}}}\ntables: {{t: {own}}}").table("t")
        assert found.spark.chosen == "glue"
        assert found.spark.emr_serverless is None


def test_a_cluster_of_a_table_wins_over_the_new_one_of_the_defaults(tmp_path: Path) -> None:
    spark = f"{{package: '{PACKAGE}', databricks: {{new_cluster: {{num_workers: 2}}}}}}"
    own = "{root: 's3://b/t', spark: {databricks: {cluster: c}}}"
    found = loaded(tmp_path, f"defaults: {{spark: {spark}}}\ntables: {{t: {own}}}").table("t")
    assert found.spark.databricks is not None
    assert found.spark.databricks.new_cluster is None


def test_settings_of_the_same_platform_are_still_completed(tmp_path: Path) -> None:
    spark = f"{{package: '{PACKAGE}', {IN_YAML}}}"
    own = "{root: 's3://b/t', spark: {emr_serverless: {logs: 's3://b/logs/'}}}"
    found = loaded(tmp_path, f"defaults: {{spark: {spark}}}\ntables: {{t: {own}}}").table("t")
    assert found.spark.emr_serverless is not None
    assert (found.spark.emr_serverless.application, found.spark.emr_serverless.logs) == (
        "a", "s3://b/logs/",
    )  # fmt: skip


def test_without_any_of_them_all_is_as_before(tmp_path: Path) -> None:
    assert one(tmp_path, "spark: {conf: {spark.a: b}}").spark.chosen is None
