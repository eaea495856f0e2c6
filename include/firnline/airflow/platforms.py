"""Open the launcher of a platform with the account of an Airflow connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import Connection

from firnline.airflow.access import adding, connection
from firnline.airflow.versions import AirflowException
from firnline.errors import EnvironmentFaultError, PlatformError, first_line
from firnline.settings.launchers import (
    PLATFORMS,
    DataprocSettings,
    EmrOnEksSettings,
    EmrServerlessSettings,
    EmrSettings,
    GlueSettings,
    Launcher,
    SparkSettings,
    section_of,
)

if TYPE_CHECKING:
    from firnline.launch.databricks import Api
    from firnline.launch.launcher import Launcher as Platform
    from firnline.settings.launchers import DatabricksSettings


def launcher_of(spark: SparkSettings, find: Callable[[], Connection]) -> Launcher:
    """Return what starts a table's jobs: the settings say it, or the type of the connection.

    Args:
        spark: of the table.
        find: returns its connection; called only if the settings do not say it.
    """
    if spark.chosen is not None:
        return spark.chosen
    found = find()
    if found.conn_type == "spark_connect" or (found.host or "").startswith("sc://"):
        return "connect"
    return "spark-submit"


def open_platform(spark: SparkSettings, launcher: Launcher) -> Platform:
    """Return the launcher of a platform; sends no request.

    Raises:
        EnvironmentFaultError: the provider of the platform is not installed; the connection is
            missing, or of another type; its content cannot be used.
        PlatformError: what gives the credentials does not answer.
    """
    return _OPEN[launcher](spark)


def account_of(spark: SparkSettings, launcher: Launcher) -> str | None:
    """Return the id of the connection of a platform's account; None for the chain of the worker."""
    return spark.account or _ACCOUNTS[launcher].unnamed


@dataclass(frozen=True, slots=True)
class _Account:
    """The connections that hold the account of a cloud."""

    conn_type: str
    unnamed: str | None
    """Connection that is meant if none is named; None for the chain of the worker."""
    options: str = ""
    """Of the command that creates one."""

    def of(self, spark: SparkSettings, launcher: Launcher) -> str | None:
        """Return the connection of a table's account; None for the chain.

        Airflow's hooks would take the worker's own keys instead of a connection that is missing,
        or of another type: the job would run as somebody else.

        Raises EnvironmentFaultError for such a one.
        """
        conn_id = account_of(spark, launcher)
        if conn_id is None:
            return None
        used_for = f"spark.conn_id names for the account of {launcher}"
        if spark.account is None:
            used_for = f"is the account of {launcher} unless spark.conn_id names another"
        found = connection(conn_id, used_for, adding(self.conn_type, self.options))
        if found.conn_type != self.conn_type:
            raise EnvironmentFaultError(
                f"the Airflow connection {conn_id!r}, which {used_for}, is of type "
                f"{found.conn_type!r} and not {self.conn_type!r}",
                next_step="name one of that type, or leave spark.conn_id out for "
                + (self.unnamed or "the usual chain of the worker"),
            )
        return conn_id


_AWS = _Account("aws", None, '--conn-extra \'{{"region_name": "REGION"}}\'')
_GOOGLE = _Account("google_cloud_platform", "google_cloud_default")
_DATABRICKS = _Account(
    "databricks", "databricks_default", "--conn-host https://WORKSPACE --conn-password TOKEN"
)


_ACCOUNTS: Mapping[Launcher, _Account] = {
    **dict.fromkeys(PLATFORMS, _AWS), "dataproc": _GOOGLE, "databricks": _DATABRICKS,
}  # fmt: skip


def _aws(
    spark: SparkSettings,
    launcher: Launcher,
    service: str,
    platform: str,
) -> Any:  # noqa: ANN401 - boto3 makes its clients at run time
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook

    from firnline.launch.aws import opened

    account = _AWS.of(spark, launcher)
    with opened(platform, section_of(launcher), account), _content(launcher, account):
        return AwsBaseHook(aws_conn_id=account, client_type=service).get_conn()


@contextmanager
def _content(launcher: Launcher, account: str | None) -> Iterator[None]:
    """Convert what a hook raises for the content of its connection; None has none."""
    whose = "the environment" if account is None else f"the Airflow connection {account!r}"
    try:
        yield
    except (AirflowException, NotImplementedError) as error:
        raise EnvironmentFaultError(
            f"{whose} gives no account of {launcher}: {first_line(error)}",
            next_step="correct the connection, which spark.conn_id names",
        ) from None


def _emr_serverless(spark: SparkSettings) -> Platform:
    from firnline.launch.emr_serverless import EmrServerless

    client = _aws(spark, "emr-serverless", "emr-serverless", "EMR Serverless")
    return EmrServerless(client, cast("EmrServerlessSettings", spark.emr_serverless))


def _emr(spark: SparkSettings) -> Platform:
    from firnline.launch.emr_on_ec2 import Emr

    return Emr(_aws(spark, "emr", "emr", "EMR"), cast("EmrSettings", spark.emr))


def _emr_on_eks(spark: SparkSettings) -> Platform:
    from firnline.launch.emr_on_eks import EmrOnEks

    client = _aws(spark, "emr-on-eks", "emr-containers", "EMR on EKS")
    return EmrOnEks(client, cast("EmrOnEksSettings", spark.emr_on_eks))


def _glue(spark: SparkSettings) -> Platform:
    from firnline.launch.glue import Glue

    return Glue(_aws(spark, "glue", "glue", "Glue"), cast("GlueSettings", spark.glue))


def _provider(launcher: Launcher, name: str) -> EnvironmentFaultError:
    return EnvironmentFaultError(
        f"spark.launcher is {launcher}, and this worker lacks Airflow's provider for it",
        next_step=f"install apache-airflow-providers-{name} where the worker and the triggerer run",
    )


def _dataproc(spark: SparkSettings) -> Platform:
    from firnline.launch.dataproc import Dataproc, asked

    try:
        from airflow.providers.google.cloud.hooks.dataproc import (  # type: ignore[import-not-found,unused-ignore]
            DataprocHook,
        )
    except ImportError:
        raise _provider("dataproc", "google") from None
    section = cast("DataprocSettings", spark.dataproc)
    account = _GOOGLE.of(spark, "dataproc")
    with asked(), _content("dataproc", account):
        client = DataprocHook(gcp_conn_id=account).get_job_client(region=section.region)
    return Dataproc(client, section)


def _databricks(spark: SparkSettings) -> Platform:
    from firnline.launch.databricks import Databricks

    try:
        from airflow.providers.databricks.hooks.databricks import (  # type: ignore[import-not-found,unused-ignore]
            DatabricksHook,
        )
    except ImportError:
        raise _provider("databricks", "databricks") from None
    hook = DatabricksHook(databricks_conn_id=_DATABRICKS.of(spark, "databricks"))
    return Databricks(_Workspace(hook), cast("DatabricksSettings", spark.databricks))


@dataclass(frozen=True, slots=True)
class _Workspace:
    """The Jobs API through Airflow's hook, which knows every way to log in."""

    hook: Any

    def __call__(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        from requests import RequestException
        from tenacity import RetryError

        try:
            # The hook has no public method that lists runs, and this is what all of its own use.
            answer: dict[str, Any] = self.hook._do_api_call((method, f"2.1/{path}"), dict(body))  # noqa: SLF001
        except (RequestException, AirflowException) as error:
            # The hook gives up on what passes with an error like that of a refusal.
            passes = isinstance(error.__context__, RetryError) or not isinstance(
                error, AirflowException | ValueError
            )
            if passes:
                raise PlatformError(
                    f"Databricks does not answer: {first_line(error)}", next_step="run it again"
                ) from None
            raise EnvironmentFaultError(
                f"Databricks refuses the request: {first_line(error)}",
                next_step="correct spark.databricks of the settings, or the rights of its account",
            ) from None
        return answer


if TYPE_CHECKING:
    _api: type[Api] = _Workspace


_OPEN: Mapping[Launcher, Callable[[SparkSettings], Platform]] = {
    "emr-serverless": _emr_serverless,
    "emr": _emr,
    "emr-on-eks": _emr_on_eks,
    "glue": _glue,
    "dataproc": _dataproc,
    "databricks": _databricks,
}
