"""What the platforms of AWS are asked, as boto3 checks it and moto answers it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    UnauthorizedSSOTokenError,
)
from moto import mock_aws

from firnline.errors import EnvironmentFaultError, PlatformError
from firnline.launch.aws import asked
from firnline.launch.emr_on_ec2 import Emr
from firnline.launch.emr_on_eks import EmrOnEks
from firnline.launch.emr_serverless import EmrServerless
from firnline.launch.glue import Glue
from firnline.launch.launcher import Launcher
from firnline.settings.launchers import (
    EmrOnEksSettings,
    EmrServerlessSettings,
    EmrSettings,
    GlueSettings,
)
from tests.support.launching import application

ROLE = "arn:aws:iam::123456789012:role/firnline"
LOGS = "s3://b/logs/"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with mock_aws():
        yield


class Sent:
    """The parameters of each call of a client."""

    def __init__(self, client: Any) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

        def note(params: dict[str, Any], model: Any, **_: Any) -> None:
            self.calls.append((model.name, params))

        client.meta.events.register("before-parameter-build", note)

    def of(self, name: str) -> dict[str, Any]:
        (found,) = [params for each, params in self.calls if each == name]
        return found


def _serverless() -> tuple[Any, Launcher]:
    client = boto3.client("emr-serverless")
    made = client.create_application(name="a", releaseLabel="emr-7.13.0", type="SPARK")
    client.start_application(applicationId=made["applicationId"])
    settings = EmrServerlessSettings(application=made["applicationId"], role=ROLE, logs=LOGS)
    return client, EmrServerless(client, settings)


def _emr() -> tuple[Any, Launcher]:
    client = boto3.client("emr")
    made = client.run_job_flow(
        Name="c",
        ReleaseLabel="emr-7.13.0",
        Instances={
            "MasterInstanceType": "m5.xlarge",
            "SlaveInstanceType": "m5.xlarge",
            "InstanceCount": 2,
            "KeepJobFlowAliveWhenNoSteps": True,
        },
        JobFlowRole="EMR_EC2_DefaultRole",
        ServiceRole="EMR_DefaultRole",
    )
    return client, Emr(client, EmrSettings(cluster=made["JobFlowId"]))


def _eks() -> tuple[Any, Launcher]:
    client = boto3.client("emr-containers")
    boto3.client("eks").create_cluster(
        name="k", roleArn=ROLE, resourcesVpcConfig={"subnetIds": ["s"]}
    )
    info = {"eksInfo": {"namespace": "n"}}
    made = client.create_virtual_cluster(
        name="v", containerProvider={"type": "EKS", "id": "k", "info": info}
    )
    settings = EmrOnEksSettings(cluster=made["id"], role=ROLE, release="emr-7.13.0-latest")
    return client, EmrOnEks(client, settings)


def _glue() -> tuple[Any, Launcher]:
    client = boto3.client("glue")
    client.create_job(
        Name="firnline",
        Role=ROLE,
        Command={"Name": "glueetl", "ScriptLocation": "s3://b/any.py"},
        ExecutionProperty={"MaxConcurrentRuns": 5},
    )
    return client, Glue(client, GlueSettings(job="firnline", workers=3))


ALL = {"emr-serverless": _serverless, "emr": _emr, "emr-on-eks": _eks, "glue": _glue}


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_a_job_is_started_found_by_its_name_looked_at_and_cancelled(aws: None, name: str) -> None:
    _, platform = ALL[name]()
    job = platform.start(application("firnline-merge-0f-1", **{"spark.executor.cores": "4"}))
    other = platform.start(application("firnline-merge-aa-1"))
    assert other != job
    seen = platform.look(job)
    if seen.state == "running":  # moto makes states up
        assert [each.job for each in platform.find("firnline-merge-0f-")] == [job]
        if name != "emr":  # which moto does not cancel: tests/spark/test_platforms.py does
            platform.cancel(job)
    assert platform.look(job).detail
    assert job in platform.logs(job)
    assert platform.find("firnline-delete-") == []


def test_emr_serverless_is_sent_the_package_the_request_and_the_configuration(aws: None) -> None:
    client, platform = _serverless()
    sent = Sent(client)
    one = application(**{"spark.executor.cores": "4"})
    platform.start(one)
    params = sent.of("StartJobRun")
    assert (params["clientToken"], params["name"]) == (one.token, one.name)
    assert (params["executionRoleArn"], params["executionTimeoutMinutes"]) == (ROLE, 75)
    assert params["jobDriver"]["sparkSubmit"] == {
        "entryPoint": one.package.entry,
        "entryPointArguments": ["--firnline-request", one.request],
    }
    overrides = params["configurationOverrides"]
    (spark,) = overrides["applicationConfiguration"]
    assert spark["properties"]["spark.executor.cores"] == "4"
    variable = "spark.emr-serverless.driverEnv.PYTHONPATH"
    assert spark["properties"][variable] == "./environment"
    monitoring = overrides["monitoringConfiguration"]
    assert monitoring["s3MonitoringConfiguration"] == {"logUri": LOGS}


@pytest.mark.long
def test_emr_runs_the_driver_in_the_cluster(aws: None) -> None:
    client, platform = _emr()
    sent = Sent(client)
    one = application(**{"spark.executor.cores": "4"})
    platform.start(one)
    (step,) = sent.of("AddJobFlowSteps")["Steps"]
    words = step["HadoopJarStep"]["Args"]
    assert words[:3] == ["spark-submit", "--deploy-mode", "cluster"]
    assert words[-3:] == [one.package.entry, "--firnline-request", one.request]
    assert "spark.executor.cores=4" in words
    assert "spark.yarn.appMasterEnv.PYTHONPATH=./environment" in words
    assert not platform.cancel_ends_driver


@pytest.mark.long
def test_emr_on_eks_is_sent_the_same(aws: None) -> None:
    client, platform = _eks()
    sent = Sent(client)
    one = application(**{"spark.executor.cores": "4"})
    platform.start(one)
    params = sent.of("StartJobRun")
    assert (params["clientToken"], params["name"]) == (one.token, one.name)
    assert params["jobDriver"]["sparkSubmitJobDriver"]["entryPoint"] == one.package.entry
    (spark,) = params["configurationOverrides"]["applicationConfiguration"]
    assert spark["properties"]["spark.kubernetes.driverEnv.PYTHONPATH"] == "./environment"


@pytest.mark.long
def test_glue_gets_script_wheel_and_configuration_as_arguments(aws: None) -> None:
    client, platform = _glue()
    sent = Sent(client)
    one = application(**{"spark.a": "1", "spark.b": "2"})
    platform.start(one)
    params = sent.of("StartJobRun")
    assert (params["WorkerType"], params["NumberOfWorkers"], params["Timeout"]) == ("G.1X", 3, 75)
    assert params["Arguments"] == {
        "--scriptLocation": one.package.entry,
        "--additional-python-modules": one.package.wheel,
        "--firnline-name": one.name,
        "--firnline-request": one.request,
        "--conf": "spark.a=1 --conf spark.b=2",
    }


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ALL if name != "emr"])  # moto breaks there
def test_a_job_that_is_unknown_to_its_platform_is_no_passing_trouble(aws: None, name: str) -> None:
    _, platform = ALL[name]()
    if name == "glue":
        platform = Glue(boto3.client("glue"), GlueSettings(job="nobody"))
    with pytest.raises(EnvironmentFaultError, match="refuses the request"):
        platform.look("00unknown00")


def _refusal(code: str, status: int) -> ClientError:
    told = {"Code": code, "Message": "no"}
    answer: Any = {"Error": told, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "StartJobRun")


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (_refusal("ThrottlingException", 400), PlatformError),
        (_refusal("ConcurrentRunsExceededException", 400), PlatformError),
        (_refusal("Whatever", 503), PlatformError),
        (EndpointConnectionError(endpoint_url="https://a"), PlatformError),
        (_refusal("AccessDeniedException", 403), EnvironmentFaultError),
        (_refusal("ValidationException", 400), EnvironmentFaultError),
        (NoCredentialsError(), EnvironmentFaultError),
        (PartialCredentialsError(provider="env", cred_var="secret"), EnvironmentFaultError),
        (UnauthorizedSSOTokenError(), EnvironmentFaultError),
        (CredentialRetrievalError(provider="container", error_msg="no"), PlatformError),
    ],
)
def test_only_what_passes_is_worth_another_try(raised: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind) as error, asked("EMR", "emr"):
        raise raised
    assert getattr(error.value, "retryable") is (kind is PlatformError)  # noqa: B009
