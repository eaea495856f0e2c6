from __future__ import annotations

import pytest

from firnline.airflow.page.cache import Cache
from firnline.errors import StoreError
from firnline.settings.load import TableSettings
from firnline.table import Table
from tests.support.background import LateBackground
from tests.support.world import SetClock


def test_two_that_find_a_table_stale_at_one_time_have_it_looked_at_once() -> None:
    """The first look may begin and end before the second one is started."""
    opened = list[TableSettings]()

    def away(table: TableSettings) -> Table:
        opened.append(table)
        raise StoreError("away", next_step="wait")

    work = LateBackground()
    cache = Cache(lambda _: pytest.fail("it opened"), away, SetClock(), work)
    table = TableSettings(name="t", root="file:///t")
    other = table.model_copy(update={"root": "file:///u"})
    for each in (table, table, other):
        cache.refresh(each)
    first, second, changed = work.acts
    first()
    second()
    assert opened == [table]
    assert cache.get("t").problem == "away; wait"
    changed()
    assert opened == [table, other]
