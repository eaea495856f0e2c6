"""The columns of a read of the data source."""

from __future__ import annotations

import pytest

from firnline.errors import UsageError
from firnline.spark.format.read import narrowed

COLUMNS = {"id": "BIGINT", "name": "VARCHAR"}


def test_the_option_columns_selects_and_orders() -> None:
    assert narrowed(COLUMNS, {}) == COLUMNS
    assert list(narrowed(COLUMNS, {"columns": "Name, id"})) == ["name", "id"]
    with pytest.raises(UsageError, match="columns names no column"):
        narrowed(COLUMNS, {"columns": " "})
