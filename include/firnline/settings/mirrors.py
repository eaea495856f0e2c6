"""Settings of mirrors: formats in which other engines read a table (``firnline.mirror``)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_serializer,
    model_validator,
)

from firnline.settings.credentials import is_credential
from firnline.settings.fields import Duration, duration_between
from firnline.settings.sections import Section

FORMATS = ("delta", "iceberg")
"""Names of the formats, as ``mirror`` of the settings and the table's properties have them."""


_OF_CATALOGS = frozenset(
    {
        "credential",
        "token",
        "header.authorization",
        "header.cookie",
        "header.proxy-authorization",
    }
)
"""Properties of catalogs, in lower case, that hold credentials, besides those with usual names."""


class DeltaMirror(Section):
    """The table's newest state as a Delta table under its root."""

    every: Annotated[Duration, duration_between("10s", "1d")] | None = Field(
        default=60_000,
        description="Age at which a run of the fleet planner publishes what the mirror does not "
        "show yet. null: the planner leaves the mirror alone.",
    )
    deletes: Literal["wait", "vectors"] = Field(
        default="wait",
        description="While deletes hide rows of live parts: `wait`: the mirror stays at the "
        "version before; `vectors`: it has deletion vectors for these rows, which not every "
        "reader knows. `vectors` is needed for `deletes: lazy` of the table.",
    )


def _check_name(value: str) -> str:
    words = value.split(".")
    if len(words) < 2 or not all(words):
        raise ValueError("must be a namespace and a name, such as lake.flights or lake.{table}")
    strays = value.replace("{table}", "")
    if "{" in strays or "}" in strays:
        raise ValueError(f"has braces, {value!r}, and of these only {{table}} stands for something")
    return value


class IcebergMirror(Section):
    """The table's newest state as a table of an Iceberg catalog."""

    catalog: str | None = Field(
        default=None,
        min_length=1,
        description="Name of the catalog in pyiceberg's configuration (`~/.pyiceberg.yaml`, or "
        "variables `PYICEBERG_CATALOG__NAME__URI` and so on), which also holds its credentials. "
        "Where it is missing, nothing is published; clean-up needs no catalog.",
    )
    name: Annotated[str, AfterValidator(_check_name)] | None = Field(
        default=None,
        description="Namespace and name of the table in the catalog, such as `lake.flights`. "
        "`{table}` stands for the table's name in the settings file.",
    )
    properties: dict[str, str] = Field(
        default_factory=dict,
        description="Further properties of the catalog, such as `type` and `uri`, over those of "
        "pyiceberg's configuration. No credentials.",
    )

    @property
    def place(self) -> tuple[str, str] | None:
        """Catalog and name; None if these settings do not say both, which a publication needs."""
        return None if self.catalog is None or self.name is None else (self.catalog, self.name)

    @field_validator("properties")
    @classmethod
    def _refuse_credentials(cls, value: dict[str, str]) -> dict[str, str]:
        for name, given in value.items():
            if is_credential(name, given) or name.lower() in _OF_CATALOGS:
                raise ValueError(
                    f"{name} may hold a credential, which has no place in a settings file; write "
                    "it into pyiceberg's configuration of the catalog, or a variable "
                    "PYICEBERG_CATALOG__NAME__… of the environment"
                )
        return value


class Mirror(Section):
    """One format, by its name or with its settings: ``delta``, or ``delta: {every: 10m}``."""

    delta: DeltaMirror | None = Field(default=None, description="A Delta table.")
    iceberg: IcebergMirror | None = Field(
        default=None, description="A table of an Iceberg catalog."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
        if isinstance(value, str):
            value = {value: {}}
        if not isinstance(value, dict) or len(value) != 1 or not {*value} <= {*FORMATS}:
            raise ValueError(f"one mirror is one of {', '.join(FORMATS)}, alone or with settings")
        return {name: {} if given is None else given for name, given in value.items()}

    @property
    def name(self) -> str:
        """Name of the format."""
        return next(name for name in FORMATS if getattr(self, name) is not None)

    @model_serializer
    def _short(self) -> str | dict[str, dict[str, Any]]:
        """Return the name alone where every setting is the default."""
        given = getattr(self, self.name)
        plain = given.model_dump(mode="json", exclude_unset=True)
        return {self.name: plain} if given.model_fields_set else self.name


def _check_list(value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
    if isinstance(value, str | dict):
        raise ValueError("must be a list, such as [delta]")  # noqa: TRY004 - pydantic wants it so
    return value


Mirrors = Annotated[tuple[Mirror, ...], BeforeValidator(_check_list)]
