"""Settings of mirrors: formats in which other engines read a table (``firnline.mirror``)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_serializer, model_validator

from firnline.settings.fields import Duration, duration_between
from firnline.settings.sections import Section

FORMATS = ("delta",)
"""Names of the formats, as ``mirror`` of the settings and the table's properties have them."""


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


class Mirror(Section):
    """One format, by its name or with its settings: ``delta``, or ``delta: {every: 10m}``."""

    delta: DeltaMirror | None = Field(default=None, description="A Delta table.")

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
