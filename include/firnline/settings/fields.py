"""Types of settings: sizes, durations, columns, partition fields and sort fields."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_serializer,
    model_validator,
)

from firnline.errors import UsageError
from firnline.types.order import SortKey, parse_key, plain_key, whole_key
from firnline.units import format_duration, format_size, parse_duration, parse_size

Transform = Literal["identity", "year", "month", "day", "hour", "bucket"]
TIME_TRANSFORMS: tuple[Transform, ...] = ("year", "month", "day", "hour")
NAMED_TRANSFORMS: tuple[Transform, ...] = (*TIME_TRANSFORMS, "bucket")
"""Those that the name of a partition's folder tells after the column (``PartitionField.label``)."""

_CALL = re.compile(r"(?P<name>[A-Za-z]+)\((?:(?P<n>[^,()]+),)?(?P<column>[^()]+)\)")
_SPLIT = re.compile(rf"(?P<name>{'|'.join(NAMED_TRANSFORMS)})[\s:]+(?P<column>\S.*)", re.IGNORECASE)
"""A transform without its parentheses."""
BUCKET = '"bucket(16, column)"'
"""A field of buckets as it stands in a list of YAML, which would be split at its comma."""
_HALF = re.compile(r"bucket\([^)]*|[^(]*\)", re.IGNORECASE)
_MISSPELT = re.compile(
    r"(?P<column>\S(?:.*?\S)?)\s+(?P<word>des|dsc|decs|dsec|descend(?:ing)?|ascend(?:ing)?|"
    r"(?:(?:asc|desc)\s+)?nulls\s+(?:first|last))",
    re.IGNORECASE,
)
"""Ends of a sort field that are meant for a direction, in words that other systems have for it."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_column(name: str) -> str:
    """Return a column name that SQL and a directory name can hold. Raises ValueError for others."""
    if not name.strip() or _CONTROL.search(name) is not None:
        raise ValueError(f"{name!r} is not a column name; write the name as the schema has it")
    return name


class PartitionField(BaseModel):
    """One level of the partition directory, such as ``month(ts)``.

    Directory names: identity ``col=value``; ``year(ts)`` -> ``ts_year=2013``, month ``2013-01``,
    day ``2013-01-05``, hour ``2013-01-05-07`` (all in UTC); bucket ``user_bucket=7``; a null is
    ``__null__``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    transform: Transform = Field(default="identity", description="Transform of the column's value.")
    column: str = Field(description="Source column.")
    buckets: int | None = Field(
        default=None, ge=2, le=65_536, description="Number of buckets; for `bucket` only."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
        return parse_partition_field(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> PartitionField:
        check_column(self.column)
        if (self.transform == "bucket") != (self.buckets is not None):
            raise ValueError(f"write {BUCKET} for buckets, and a number for nothing else")
        return self

    @property
    def label(self) -> str:
        """The part of the directory name before ``=``, unquoted."""
        return self.column if self.transform == "identity" else f"{self.column}_{self.transform}"

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        count = "" if self.buckets is None else f"{self.buckets}, "
        return f"{self.transform}({count}{self.column})"

    @model_serializer
    def _text(self) -> str | dict[str, object]:
        """Return the short form, or a mapping for a column that the short form cannot hold."""
        whole: dict[str, object] = {
            "transform": self.transform,
            "column": self.column,
            "buckets": self.buckets,
        }
        try:
            short = {"transform": "identity", "buckets": None} | parse_partition_field(str(self))
        except ValueError:
            return whole
        return str(self) if short == whole else whole


def parse_partition_field(text: str) -> dict[str, object]:
    """Parse ``carrier``, ``month(ts)`` or ``bucket(16, user)``.

    Raises:
        ValueError: anything else; names the allowed transforms.
    """
    if "(" not in text and ")" not in text:
        _refuse_split(text.strip())
        return {"column": text.strip()}
    if _HALF.fullmatch(text.strip()):
        raise ValueError(
            f"{text!r} is half of a partition field: YAML splits a list at commas; write {BUCKET} "
            "with these quotes"
        )
    match = _CALL.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} is not a partition field; write column, day(ts), month(ts) or {BUCKET}"
        )
    name, number = match["name"].lower(), match["n"]
    allowed = ("identity", *NAMED_TRANSFORMS)
    if name not in allowed:
        raise ValueError(f"{match['name']!r} is not a transform; allowed are {', '.join(allowed)}")
    if (name == "bucket") != (number is not None):
        raise ValueError(f"{text!r} is not allowed; write {BUCKET}, and month(column)")
    field: dict[str, object] = {"transform": name, "column": match["column"].strip()}
    if number is not None:
        if not number.strip().isdecimal():
            raise ValueError(f"{text!r} needs a whole number of buckets; write {BUCKET}")
        field["buckets"] = int(number)
    return field


def _refuse_split(text: str) -> None:
    """Raise ValueError for ``day ts``, which would be a column of this name."""
    match = _SPLIT.fullmatch(text)
    if match is not None:
        word, column = match["name"].lower(), match["column"]
        meant = BUCKET if word == "bucket" else f"{word}({column})"
        raise ValueError(
            f"{text!r} is not a partition field; write {meant}; a column of this very name is "
            f"{{column: '{text}'}}"
        )


class SortField(BaseModel):
    """One column of the sort order, such as ``carrier`` or ``ts desc``; nulls last either way."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str = Field(description="Column to sort by.")
    descending: bool = Field(
        default=False, description="Sort from the largest value to the smallest."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
        if not isinstance(value, str):
            return value
        _refuse_misspelt(value.strip())
        return dataclasses.asdict(parse_key(value))

    @model_validator(mode="after")
    def _check(self) -> SortField:
        check_column(self.column)
        return self

    def __str__(self) -> str:
        return str(SortKey(self.column, self.descending))

    @model_serializer
    def _text(self) -> str | dict[str, object]:
        if ends_misspelt(self.column):  # refused in the short form
            return whole_key(self)
        return plain_key(self)


def ends_misspelt(text: str) -> bool:
    """Return True if a sort field's text ends with a word that was meant for a direction."""
    return _MISSPELT.fullmatch(text) is not None


def _refuse_misspelt(text: str) -> None:
    """Raise ValueError for ``ts dsc``, which would be a column of this name."""
    match = _MISSPELT.fullmatch(text)
    if match is not None:
        column, word = match["column"], match["word"]
        raise ValueError(
            f"{text!r} ends with {word!r}, and a direction is asc or desc, with nulls last: write "
            f"'{column} desc' or '{column} asc'; a column of this very name is '{text} asc'"
        )


def _for_pydantic(parse: Callable[[object], int]) -> Callable[[object], int]:
    def validate(value: object) -> int:
        try:
            return parse(value)
        except UsageError as error:
            # pydantic collects ValueError only; the field's path is added by the caller.
            raise ValueError(str(error)) from None

    return validate


def size_between(least: str, most: str | None = None) -> AfterValidator:
    """Return a validator for a ``Size`` within bounds; its message states sizes with units."""
    return _between(parse_size, format_size, least, most)


def duration_between(least: str, most: str | None = None) -> AfterValidator:
    """Return a validator for a ``Duration`` within bounds; its message states units."""
    return _between(parse_duration, format_duration, least, most)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and greatest value of a size or duration, as the settings spell them."""

    least: str
    most: str | None
    low: int
    high: int | None
    show: Callable[[int], str]

    def __call__(self, value: int) -> int:
        """Return the value. Raises ValueError if it is out of bounds."""
        if value < self.low or (self.high is not None and value > self.high):
            least, most = self.least, self.most
            allowed = f"at least {least}" if most is None else f"between {least} and {most}"
            raise ValueError(f"{self.show(value)} is not allowed; set {allowed}")
        return value


def _between(
    parse: Callable[[object], int], show: Callable[[int], str], least: str, most: str | None
) -> AfterValidator:
    high = None if most is None else parse(most)
    return AfterValidator(Bounds(least, most, parse(least), high, show))


def _serializer(show: Callable[[int], str]) -> PlainSerializer:
    return PlainSerializer(show, return_type=str, when_used="json")


Size = Annotated[int, BeforeValidator(_for_pydantic(parse_size)), _serializer(format_size)]
"""A pydantic field of bytes, parsed from ``512MiB`` and written in this form in JSON."""


Duration = Annotated[
    int, BeforeValidator(_for_pydantic(parse_duration)), _serializer(format_duration)
]
"""A pydantic field of milliseconds, parsed from ``24h`` and written in this form in JSON."""
