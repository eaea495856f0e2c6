"""Options that several operations have: which partitions, a dry run, how rows are removed."""

from __future__ import annotations

from typing import Annotated, Literal

from firnline.operations.fields import Option

GLOB = "ts_month=2013-*"
"""Example of a glob over partition paths, for a table that is not known."""
DryRun = Annotated[
    bool, Option("Dry run", "Print the plan only.", form=False)  # DAGs have a param of their own
]
Mode = Literal["eager", "lazy"]
"""Rewrite parts in this transaction, or leave that to the next merge."""


def partitions(absent: str, *, in_form: str = "", flag: str = "") -> Option:
    """Return the words of globs over partitions; ``absent`` and the others as in ``Option``."""
    return Option(
        "Partitions",
        f"Only these, as globs over partition paths such as `{GLOB}`.",
        absent=absent,
        in_form=in_form,
        metavar="GLOB",
        flag=flag,
        example=GLOB,
        example_of="glob",
    )


Partitions = Annotated[tuple[str, ...], partitions("all partitions")]
