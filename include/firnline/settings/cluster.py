"""How merged parts of a table are clustered: which rows go into one part."""

from __future__ import annotations

import json
import zlib
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from firnline.settings.sections import Column, Section
from firnline.units import Size, size_between

RUN_TARGETS = 8
"""``run_size`` as a multiple of ``target_size``, when it is not set."""
_MOST_COLUMNS = {"range": 8, "zorder": 4, "hash": 8}


class ClusterSettings(Section):
    """Clustering is a matter of merges only; appends write rows as they come."""

    columns: tuple[Column, ...] = Field(
        min_length=1,
        description="Columns, the most important first: 1 to 8, for zorder 2 to 4.",
    )
    method: Literal["range", "zorder", "hash"] = Field(
        default="range",
        description="range: by the first column, then the next; zorder: by all columns alike; "
        "hash: rows with equal values together, in no order.",
    )
    run_size: Annotated[Size, size_between("1MiB", "1TiB")] | None = Field(
        default=None,
        description="Size, at least target_size. Parts that were clustered together (a run) are "
        "not rewritten any more from 3/4 of it; one merge task needs about three times as much "
        "local disk. null: 8 x target_size.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
        return {"columns": value} if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _check(self) -> ClusterSettings:
        most = _MOST_COLUMNS[self.method]
        if len(self.columns) > most:
            raise ValueError(f"method {self.method} takes at most {most} columns")
        if self.method == "zorder" and len(self.columns) == 1:
            raise ValueError("zorder needs at least 2 columns; for one it is range")
        return self

    @property
    def mark(self) -> str:
        """Names method and columns in 8 characters: what else was clustered is not by these."""
        text = json.dumps([self.method, *self.columns])
        return f"{zlib.crc32(text.encode()):08x}"

    def run_bytes(self, target: int) -> int:
        """Bytes up to which runs are merged.

        Args:
            target: ``merge.target_size``, bytes.
        """
        return RUN_TARGETS * target if self.run_size is None else max(self.run_size, target)
