"""Open the launcher of a platform with the account of an Airflow connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import Connection

from firnline.airflow.versions import AirflowException
from firnline.errors import EnvironmentFaultError, PlatformError, first_line
from firnline.settings.launchers import (
    DataprocSettings,
    EmrOnEksSettings,
    EmrServerlessSettings,
    EmrSettings,
    GlueSettings,
    Launcher,
    SparkSettings,
)

if TYPE_CHECKING:
    from firnline.launch.databricks import Api
    from firnline.launch.launcher import Launcher as Platform
    from firnline.settings.launchers import DatabricksSettings


def launcher_of(spark: SparkSettings, connection: Callable[[], Connection]) -> Launcher:
    """Return what starts a table's jobs: the settings say it, or the type of the connection.

    Args:
        spark: of the table.
        connection: returns its connection; called only if the settings do not say it.
    """
    if spark.chosen is not None:
        return spark.chosen
    found = connection()
    if found.conn_type == "spark_connect" or (found.host or "").startswith("sc://"):
        return "connect"
    return "spark-submit"


def open_platform(spark: SparkSettings, launcher: Launcher) -> Platform:
    """Return the launcher of a platform; sends no request.

    Raises:
        EnvironmentFaultError: the provider of the platform is not installed.
    """
    return _OPEN[launcher](spark)


def _aws(spark: SparkSettings, service: str) -> Any:  # noqa: ANN401 - boto3 makes its clients at run time
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook

    return AwsBaseHook(aws_conn_id=spark.account, client_type=service).get_conn()


def _emr_serverless(spark: SparkSettings) -> Platform:
    from firnline.launch.emr_serverless import EmrServerless

    section = cast("EmrServerlessSettings", spark.emr_serverless)
    return EmrServerless(_aws(spark, "emr-serverless"), section)


def _emr(spark: SparkSettings) -> Platform:
    from firnline.launch.emr_on_ec2 import Emr

    return Emr(_aws(spark, "emr"), cast("EmrSettings", spark.emr))


def _emr_on_eks(spark: SparkSettings) -> Platform:
    from firnline.launch.emr_on_eks import EmrOnEks

    return EmrOnEks(_aws(spark, "emr-containers"), cast("EmrOnEksSettings", spark.emr_on_eks))


def _glue(spark: SparkSettings) -> Platform:
    from firnline.launch.glue import Glue

    return Glue(_aws(spark, "glue"), cast("GlueSettings", spark.glue))


def _provider(launcher: Launcher, name: str) -> EnvironmentFaultError:
    return EnvironmentFaultError(
        f"spark.launcher is {launcher}, and this worker lacks Airflow's provider for it",
        next_step=f"install apache-airflow-providers-{name} where the worker and the triggerer run",
    )


def _dataproc(spark: SparkSettings) -> Platform:
    from firnline.launch.dataproc import Dataproc

    try:
        from airflow.providers.google.cloud.hooks.dataproc import (  # type: ignore[import-not-found,unused-ignore]
            DataprocHook,
        )
    except ImportError:
        raise _provider("dataproc", "google") from None
    section = cast("DataprocSettings", spark.dataproc)
    hook = DataprocHook(gcp_conn_id=spark.account or "google_cloud_default")
    return Dataproc(hook.get_job_client(region=section.region), section)


def _databricks(spark: SparkSettings) -> Platform:
    from firnline.launch.databricks import Databricks

    try:
        from airflow.providers.databricks.hooks.databricks import (  # type: ignore[import-not-found,unused-ignore]
            DatabricksHook,
        )
    except ImportError:
        raise _provider("databricks", "databricks") from None
    hook = DatabricksHook(databricks_conn_id=spark.account or "databricks_default")
    return Databricks(_Workspace(hook), cast("DatabricksSettings", spark.databricks))


@dataclass(frozen=True, slots=True)
class _Workspace:
    """The Jobs API through Airflow's hook, which knows every way to log in."""

    hook: Any

    def __call__(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        from requests import RequestException

        try:
            # The hook has no public method that lists runs, and this is what all of its own use.
            answer: dict[str, Any] = self.hook._do_api_call((method, f"2.1/{path}"), dict(body))  # noqa: SLF001
        except RequestException as error:
            raise PlatformError(
                f"Databricks does not answer: {first_line(error)}", next_step="run it again"
            ) from None
        except AirflowException as error:
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
