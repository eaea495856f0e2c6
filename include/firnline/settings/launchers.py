"""Where Spark jobs run: the sections of the platforms, and which of them a table's jobs run on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from firnline.errors import UsageError
from firnline.paths import Root
from firnline.settings.credentials import refuse_credentials
from firnline.settings.packages import refuse_other
from firnline.settings.sections import Section

Launcher = Literal[
    "spark-submit",
    "emr-serverless",
    "emr",
    "emr-on-eks",
    "glue",
    "dataproc",
    "databricks",
    "connect",
    "none",
]
"""What starts a job: ``connect`` and ``none`` run it in a process of the task's machine."""

PLATFORMS: tuple[Launcher, ...] = (
    "emr-serverless", "emr", "emr-on-eks", "glue", "dataproc", "databricks",
)  # fmt: skip
"""Launchers whose jobs run elsewhere, from a published package."""


def _begins(*beginnings: str) -> AfterValidator:
    """Return the check that a text begins in one of these ways."""

    def check(text: str) -> str:
        if not text.startswith(beginnings) or text in beginnings:
            raise ValueError(f"{text!r} does not begin with {' or '.join(beginnings)}")
        return text

    return AfterValidator(check)


def _check_logs(url: str) -> str:
    try:
        scheme = Root.parse(url, source=True).scheme
    except UsageError as error:
        raise ValueError(str(error)) from None
    if scheme != "s3":
        raise ValueError(f"{url!r} does not begin with s3://")
    return url


def _check_package(url: str) -> str:
    """Return the URL of a package without its trailing slash. Raises ValueError."""
    url = url.rstrip("/")
    try:
        refuse_other(url)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return url


Arn = Annotated[str, _begins("arn:")]
Logs = Annotated[str, AfterValidator(_check_logs)]

_READS: dict[Launcher, tuple[str, ...]] = {
    **dict.fromkeys(PLATFORMS, ("s3",)),
    "dataproc": ("gs",),
    "databricks": ("s3", "gs"),
}
"""Schemes of the packages that a platform reads, besides ``file``: a folder mounted there."""


class EmrServerlessSettings(Section):
    """An application of Amazon EMR Serverless."""

    application: str = Field(min_length=1, description="Id of the application.")
    role: Arn = Field(description="ARN of the role of the job: it reads and writes the table.")
    logs: Logs | None = Field(
        default=None,
        description="Where the platform puts the logs. null: it keeps them itself for 30 days.",
    )


class EmrSettings(Section):
    """A running cluster of Amazon EMR on EC2."""

    cluster: Annotated[str, _begins("j-")] = Field(description="Id of the cluster.")
    role: Arn | None = Field(
        default=None,
        description="ARN of the runtime role of the step. null: the role of its instances.",
    )


class EmrOnEksSettings(Section):
    """A virtual cluster of Amazon EMR on EKS."""

    cluster: str = Field(min_length=1, description="Id of the virtual cluster.")
    role: Arn = Field(description="ARN of the role of the job.")
    release: Annotated[str, _begins("emr-")] = Field(
        description="Label of the release, such as `emr-7.13.0-latest`."
    )
    logs: Logs | None = Field(default=None, description="Where the platform puts the logs.")


class GlueSettings(Section):
    """A job of AWS Glue, whose script and arguments each run replaces."""

    job: str = Field(min_length=1, description="Name of the job, of Glue 5.1 or newer.")
    worker: str = Field(default="G.1X", min_length=1, description="Type of the workers.")
    workers: int = Field(
        default=2, ge=2, description="Number of workers, one of which is the driver."
    )


class DataprocSettings(Section):
    """A cluster of Google Cloud Dataproc."""

    project: str = Field(min_length=1, description="Id of the project.")
    region: str = Field(min_length=1, description="Region of the cluster.")
    cluster: str = Field(min_length=1, description="Name of the cluster.")


class DatabricksSettings(Section):
    """A cluster of Databricks: one that is there, or one for each run."""

    cluster: str | None = Field(
        default=None, min_length=1, description="Id of a cluster that is there."
    )
    new_cluster: dict[str, Any] | None = Field(
        default=None,
        description="Instead of `cluster`: that of each run, as the Jobs API describes it; "
        "`spark.conf` is added to its `spark_conf`. Credentials are refused: name a secret that "
        "Databricks keeps, `{{secrets/scope/key}}`.",
    )

    @field_validator("new_cluster")
    @classmethod
    def _check_cluster(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        texts = {key: _texts(key, value[key]) for key in _OF_TEXTS if key in value}
        refuse_credentials(
            value,
            "; name a secret that Databricks keeps, {{secrets/scope/key}}, or give the cluster an "
            "identity of its own",
        )
        return {**value, **texts}

    @model_validator(mode="after")
    def _check(self) -> DatabricksSettings:
        if (self.cluster is None) == (self.new_cluster is None):
            raise ValueError("give cluster or new_cluster, and not both")
        return self


_OF_TEXTS = ("spark_conf", "spark_env_vars")
"""Mappings of a new cluster of Databricks whose values are texts."""


def _texts(key: str, given: object) -> dict[str, str]:
    """Return a mapping with its values as text. Raises ValueError for anything else."""
    if not isinstance(given, dict):
        raise ValueError(f"{key} must be a mapping; leave it out if there is none")  # noqa: TRY004 - pydantic wants it so
    texts = {str(name): conf_text(value) for name, value in given.items()}
    wrong = next((name for name, value in texts.items() if not isinstance(value, str)), None)
    if wrong is not None:
        raise ValueError(f"{key}: the value of {wrong!r} must be a text")
    return texts


def conf_text(value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
    """Return a value as text: YAML reads ``true`` and ``4`` as other types, Spark needs strings."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


DEFAULT_CONNECTION = "spark_default"


class SparkSettings(Section):
    """Where Spark jobs run, and their configuration.

    The section of a platform makes it the launcher. Without any, and without `launcher`, the type
    of the connection decides: `spark_connect`, or a host that begins with `sc://`, is a Connect
    server, everything else is for spark-submit.
    """

    conn_id: str = Field(
        default=DEFAULT_CONNECTION,
        min_length=1,
        description="Airflow connection of the Spark cluster or of the platform's account, of type "
        "`aws`, `google_cloud_platform` or `databricks`. `spark_default` names no account: the "
        "usual chain of the worker on AWS, `google_cloud_default` and `databricks_default` "
        "elsewhere.",
    )
    launcher: Launcher | None = Field(
        default=None,
        description="What starts the jobs; `none` runs the kernels in the task, without Spark. "
        "null: the platform that has a section here, else by the type of the connection. The "
        "platform of a table wins over platform and launcher of the defaults.",
    )
    package: Annotated[str, AfterValidator(_check_package)] | None = Field(
        default=None,
        description="What `firnline spark publish URL` printed: a job elsewhere runs exactly this. "
        "At `s3://` for AWS, `gs://` for Dataproc, either for Databricks.",
    )
    deferrable: bool | None = Field(
        default=None,
        description="Let a trigger wait for a job elsewhere, so that it takes no slot of a worker. "
        "null: as `operators.default_deferrable` of Airflow says.",
    )
    python: Annotated[str, _begins("/")] | None = Field(
        default=None,
        description="Python of jobs on the task's machine, with firnline installed in its "
        "environment; only with `launcher: none` or `connect`. null: that of the worker.",
    )
    conf: dict[str, Annotated[str, BeforeValidator(conf_text)]] = Field(
        default_factory=dict,
        description="Spark configuration; every key begins with `spark.`. Credentials are "
        "refused, because it is passed in argument lists.",
    )
    emr_serverless: EmrServerlessSettings | None = Field(
        default=None, description="An application of Amazon EMR Serverless."
    )
    emr: EmrSettings | None = Field(
        default=None, description="A running cluster of Amazon EMR on EC2."
    )
    emr_on_eks: EmrOnEksSettings | None = Field(
        default=None, description="A virtual cluster of Amazon EMR on EKS."
    )
    glue: GlueSettings | None = Field(default=None, description="A job of AWS Glue.")
    dataproc: DataprocSettings | None = Field(
        default=None, description="A cluster of Google Cloud Dataproc."
    )
    databricks: DatabricksSettings | None = Field(
        default=None, description="A cluster of Databricks."
    )

    @model_validator(mode="after")
    def _check(self) -> SparkSettings:
        for key in self.conf:
            if not key.startswith("spark."):
                raise ValueError(f"{key!r} is not a Spark setting; it must begin with 'spark.'")
        refuse_credentials(
            self.conf,
            ", and conf is passed in argument lists; use the connection, the environment of the "
            "executors or a secret of the cluster",
        )
        self._check_launcher()
        return self

    def _check_launcher(self) -> None:
        given = [each for each in PLATFORMS if self.platform(each) is not None]
        if len(given) > 1 and self.launcher is None:
            raise ValueError(
                f"the sections {' and '.join(map(section_of, given))} are {len(given)} platforms; "
                f"keep one, or say which starts the jobs: launcher: {' or '.join(given)}"
            )
        chosen = self.chosen
        if self.python is not None and chosen not in {"none", "connect"}:
            raise ValueError(
                "python is that of jobs on the task's machine; with it write launcher: none, or "
                "connect"
            )
        if chosen in PLATFORMS:
            self._check_platform(chosen)
        elif chosen is None and self.package is not None:
            raise ValueError(
                "package is given and no platform that runs it; add the section of one, or write "
                "launcher: spark-submit"
            )

    def _check_platform(self, chosen: Launcher) -> None:
        if self.platform(chosen) is None:
            raise ValueError(f"launcher {chosen} needs its section: {section_of(chosen)}: {{…}}")
        if self.package is None:
            raise ValueError(
                f"launcher {chosen} needs package: `firnline spark publish URL` prints it"
            )
        if Root.parse(self.package).scheme not in {*_READS[chosen], "file"}:
            where = " or ".join(f"{each}://" for each in _READS[chosen])
            raise ValueError(
                f"{chosen} does not read the package {self.package}; publish it to {where}"
            )

    def check_beside(self, root: str) -> None:
        """Raise ValueError if no platform can read both the package and the table.

        Args:
            root: of the table. A package in a folder needs that folder mounted on the platform,
                so only with a table in a folder, which needs the same, it can be meant.
        """
        package = self.package
        folder = package is not None and package.startswith("file://")
        if folder and self.chosen in PLATFORMS and not root.startswith("file://"):
            where = " or ".join(f"{each}://" for each in _READS[self.chosen])
            raise ValueError(
                f"spark: {self.chosen} does not read the package {package} of this machine; "
                f"publish it to {where}"
            )

    @property
    def chosen(self) -> Launcher | None:
        """Return what starts the jobs; None if the type of the connection decides."""
        if self.launcher is not None:
            return self.launcher
        return next((each for each in PLATFORMS if self.platform(each) is not None), None)

    def platform(self, launcher: Launcher) -> Section | None:
        """Return the section of a platform; None without it."""
        section: Section | None = getattr(self, section_of(launcher))
        return section

    @property
    def account(self) -> str | None:
        """Return the connection of the platform's account; None for the chain of its cloud."""
        return None if self.conn_id == DEFAULT_CONNECTION else self.conn_id


def section_of(launcher: Launcher) -> str:
    """Return the key of a platform's section."""
    return launcher.replace("-", "_")
