"""The account with which a platform is asked: that of the connection that the settings name."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from requests import ConnectionError as NoAnswerError
from requests.exceptions import MissingSchema
from tenacity import Future, RetryError

from firnline.airflow.platforms import open_platform
from firnline.airflow.versions import AirflowException
from firnline.errors import EnvironmentFaultError, PlatformError
from firnline.settings.launchers import Launcher, SparkSettings
from tests.support.launching import DIGEST

ROLE = "arn:aws:iam::123456789012:role/firnline"
SECTIONS: dict[Launcher, dict[str, Any]] = {
    "emr-serverless": {"application": "a", "role": ROLE},
    "emr": {"cluster": "j-1"},
    "emr-on-eks": {"cluster": "v", "role": ROLE, "release": "emr-7.13.0-latest"},
    "glue": {"job": "firnline"},
}


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with keys of its own, which a job that names an account must not use."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "WORKERS")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "w")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def connect(monkeypatch: pytest.MonkeyPatch, conn_id: str, conn_type: str, **extra: str) -> None:
    fields = {"conn_type": conn_type, "login": "ACCOUNT", "password": "secret1", "extra": extra}
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))


def spark(launcher: Launcher = "emr-serverless", **more: Any) -> SparkSettings:
    package = f"s3://b/firnline/1.2-{DIGEST}"
    section = {launcher.replace("-", "_"): SECTIONS[launcher]}
    return SparkSettings.model_validate({"package": package, **section, **more})


@pytest.mark.parametrize("launcher", SECTIONS)
def test_a_named_connection_that_is_missing_is_not_replaced_by_the_workers_keys(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with pytest.raises(EnvironmentFaultError) as raised:
        open_platform(spark(launcher, conn_id="account"), launcher)
    assert str(raised.value) == (
        f"there is no Airflow connection 'account', which spark.conn_id names for the account of "
        f"{launcher}; create it with `airflow connections add account --conn-type aws "
        '--conn-extra \'{"region_name": "REGION"}\'`'
    )


@pytest.mark.parametrize("conn_type", ["spark", "google_cloud_platform", "http"])
def test_a_named_connection_of_another_type_is_not_either(
    conn_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    connect(monkeypatch, "account", conn_type)
    with pytest.raises(EnvironmentFaultError) as raised:
        open_platform(spark(conn_id="account"), "emr-serverless")
    said = str(raised.value)
    assert "'account', which spark.conn_id names for the account of emr-serverless" in said
    assert f"is of type {conn_type!r} and not 'aws'" in said


@pytest.mark.long
def test_the_account_is_that_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "account", "aws", region_name="eu-west-1")
    client: Any = open_platform(spark("glue", conn_id="account"), "glue").client  # type: ignore[attr-defined]
    assert client.meta.region_name == "eu-west-1"
    assert client._request_signer._credentials.access_key == "ACCOUNT"


@pytest.mark.long
def test_the_default_names_no_account_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most installations have it, of type spark."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    connect(monkeypatch, "spark_default", "spark")
    client: Any = open_platform(spark("emr"), "emr").client  # type: ignore[attr-defined]
    assert client._request_signer._credentials.access_key == "WORKERS"


@pytest.mark.long
@pytest.mark.parametrize("launcher", SECTIONS)
def test_without_a_region_it_says_who_has_none(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnvironmentFaultError, match="the usual AWS chain of this worker has no"):
        open_platform(spark(launcher), launcher)
    connect(monkeypatch, "account", "aws")
    with pytest.raises(EnvironmentFaultError) as raised:
        open_platform(spark(launcher, conn_id="account"), launcher)
    assert "'account' (spark.conn_id) has no region; set region_name in" in str(raised.value)


@pytest.mark.long
@pytest.mark.parametrize(
    "extra",
    [
        {"region_name": "no region"},
        {"region_name": "eu-west-1", "endpoint_url": "no endpoint"},
        {"region_name": "eu-west-1", "role_arn": ROLE, "assume_role_method": "none"},
        {"region_name": "eu-west-1", "profile_name": "nobody"},
    ],
)
def test_a_connection_whose_content_is_of_no_use_is_told_in_one_sentence(
    extra: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"conn_type": "aws", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_ACCOUNT", json.dumps(fields))
    with pytest.raises(EnvironmentFaultError) as raised:
        open_platform(spark(conn_id="account"), "emr-serverless")
    assert "spark.conn_id" in str(raised.value)


# --- Google and Databricks, by stand-ins of their providers ---------------------------------------


def provide(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = ModuleType(f"airflow.providers.{name}")
    for key, value in content.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, module.__name__, module)


def dataproc(**more: Any) -> SparkSettings:
    section = {"project": "p", "region": "r", "cluster": "c"}
    given = {"package": f"gs://b/firnline/1.2-{DIGEST}", "dataproc": section, **more}
    return SparkSettings.model_validate(given)


def databricks(**more: Any) -> SparkSettings:
    given = {"package": f"s3://b/firnline/1.2-{DIGEST}", "databricks": {"cluster": "c"}, **more}
    return SparkSettings.model_validate(given)


class Hook:
    """Of both providers; raises what a test says."""

    error: Exception | None = None
    context: Exception | None = None

    def __init__(self, **account: str) -> None:
        self.account = account

    def get_job_client(self, region: str) -> Any:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(region=region, account=self.account)

    def _do_api_call(self, *_: Any) -> dict[str, Any]:
        assert self.error is not None
        if self.context is None:
            raise self.error
        try:
            raise self.context
        except RetryError:
            raise self.error  # noqa: B904 - as the provider does


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> type[Hook]:
    made = type("Made", (Hook,), {})
    provide(monkeypatch, "google.cloud.hooks.dataproc", DataprocHook=made)
    provide(monkeypatch, "databricks.hooks.databricks", DatabricksHook=made)
    return made


def test_elsewhere_the_default_is_the_providers_own(
    hook: type[Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    for settings, launcher, name in (
        (dataproc(), "dataproc", "google_cloud_default"),
        (databricks(), "databricks", "databricks_default"),
    ):
        with pytest.raises(EnvironmentFaultError, match=f"'{name}', which is the account of"):
            open_platform(settings, launcher)  # type: ignore[arg-type]
    connect(monkeypatch, "google_cloud_default", "google_cloud_platform")
    client: Any = open_platform(dataproc(), "dataproc").client  # type: ignore[attr-defined]
    assert client.account == {"gcp_conn_id": "google_cloud_default"}


def test_their_connections_are_of_their_types(
    hook: type[Hook], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "account", "aws")
    with pytest.raises(EnvironmentFaultError, match="'aws' and not 'google_cloud_platform'"):
        open_platform(dataproc(conn_id="account"), "dataproc")
    with pytest.raises(EnvironmentFaultError, match="'aws' and not 'databricks'"):
        open_platform(databricks(conn_id="account"), "databricks")


def of_google(name: str, *, retryable: bool) -> Exception:
    module, _, kind = name.rpartition(".")
    made: Exception = type(kind, (Exception,), {"__module__": module, "retryable": retryable})("no")
    return made


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (of_google("google.auth.exceptions.DefaultCredentialsError", retryable=False),
         EnvironmentFaultError),
        (of_google("google.auth.exceptions.TransportError", retryable=True), PlatformError),
        (of_google("google.api_core.exceptions.RetryError", retryable=False), PlatformError),
        (AirflowException("Invalid key JSON."), EnvironmentFaultError),
    ],
)  # fmt: skip
def test_what_google_raises_while_it_logs_in_is_one_sentence(
    hook: type[Hook], error: Exception, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "account", "google_cloud_platform")
    hook.error = error
    with pytest.raises(kind):
        open_platform(dataproc(conn_id="account"), "dataproc")


@pytest.mark.parametrize(
    ("error", "context", "kind"),
    [
        (NoAnswerError("no"), None, PlatformError),
        (AirflowException("failed 3 times. Giving up."), RetryError(Future(3)), PlatformError),
        (AirflowException("Status Code: 403"), None, EnvironmentFaultError),
        (MissingSchema("no scheme"), None, EnvironmentFaultError),
    ],
)
def test_databricks_is_asked_again_only_for_what_passes(
    hook: type[Hook],
    error: Exception,
    context: Exception | None,
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect(monkeypatch, "account", "databricks")
    hook.error, hook.context = error, context
    platform = open_platform(databricks(conn_id="account"), "databricks")
    with pytest.raises(kind):
        platform.look("7")
