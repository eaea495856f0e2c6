"""The options of whatever can be prepared, in words: see ``operations.options``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Protocol

from firnline.operations.fields import Option
from firnline.units import DAY_MS

Prepare = Annotated[
    bool,
    Option(
        "Prepare",
        "Write the new parts, show which rows would go, come and change, and commit nothing: "
        "`--commit` or `--discard` decides later.",
        form=False,
    ),
]
Assertions = Annotated[
    tuple[str, ...],
    Option(
        "Assertions",
        "A SELECT over `before` and `after`, the rows of the partitions that change, such as "
        "`select count(*) = 0 from after where amount < 0`. Unless each is true, nothing "
        "is prepared.",
        metavar="QUERY",
        flag="--assert",
    ),
]
KeyColumns = Annotated[
    tuple[str, ...],
    Option(
        "Key columns",
        "Columns that tell which row before is which row after, to count changed rows and values.",
        absent="the primary key; of a table without one, a changed row is one removed and one "
        "added",
        metavar="COLUMN",
        flag="--key",
    ),
]
Samples = Annotated[
    int | None,
    Option(
        "Sample rows",
        "Show so many of the rows that go, come and change, at most 20 of each. They are "
        "stored with the prepared change until it is committed or discarded.",
        absent="none",
        metavar="N",
        least=1,
        most=20,
    ),
]
Keep = Annotated[
    int | None,
    Option(
        "Keep",
        "Time to decide, such as `3d`: afterwards the orphan sweep discards what was prepared, "
        "though never before `orphan_grace`.",
        absent="7d",
        metavar="DURATION",
        form=False,
        unit="duration",
        least=1_000,
        most=3_650 * DAY_MS,
    ),
]


class Preparable(Protocol):
    """Options of an operation that can be prepared."""

    __struct_fields__: ClassVar[tuple[str, ...]]

    @property
    def dry_run(self) -> bool:
        """Only plan."""

    @property
    def prepare(self) -> bool:
        """Commit nothing."""

    @property
    def assertions(self) -> tuple[str, ...]:
        """What has to be true of the rows before and after."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns by which rows before and after are matched."""

    @property
    def samples(self) -> int | None:
        """Rows of each kind to show."""

    @property
    def keep(self) -> int | None:
        """Time to decide, ms."""
