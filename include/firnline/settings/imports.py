"""Settings of a table's standing import: folders that others keep writing."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from firnline.errors import UsageError
from firnline.paths import Root
from firnline.settings.sections import Schedule, Section


def _as_list(value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
    return [value] if isinstance(value, str) else value


def _check_url(url: str) -> str:
    try:
        Root.parse(url, source=True)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return url


class ImportSettings(Section):
    """Import of the new files of folders that others keep writing."""

    source: Annotated[
        tuple[Annotated[str, AfterValidator(_check_url)], ...], BeforeValidator(_as_list)
    ] = Field(
        default=(),
        description="URL of the folder whose new files are imported, or a list of several; in the "
        "bucket of the table. Variables of the environment are expanded as in `root`.",
    )
    schedule: Schedule | None = Field(
        default=None,
        description="Schedule of the import DAG, which takes the files that no import has taken so "
        "far. null: only by hand.",
    )
    exclude: tuple[str, ...] = Field(
        default=(),
        description="Globs of files that are left out, over paths below the folder: `*/tmp/*`.",
    )
    path_types: dict[str, str] = Field(
        default_factory=dict,
        description="Types of columns that only the folders state: `{day: DATE}`. Without one it "
        "is the type that Spark would infer from the files of a run, so it is best to state it.",
    )
    no_path_columns: bool = Field(
        default=False,
        description="Leave out the columns that only the folders state: files are then copied as "
        "they are, and no Spark starts.",
    )
    skip_bad: bool = Field(
        default=False,
        description="Take the other files if some cannot be taken, and call the notifier of "
        "`alerts`. Without it such a file fails the run, and none is taken.",
    )
    split: bool = Field(
        default=False,
        description="Read and write the rows of files that span partitions; without it such a file "
        "cannot be taken.",
    )

    @model_validator(mode="after")
    def _check(self) -> ImportSettings:
        if self.schedule is not None and not self.source:
            raise ValueError("schedule needs a source, the folder whose new files are imported")
        return self
