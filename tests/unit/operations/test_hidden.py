from __future__ import annotations

from firnline.operations.hidden import columns_in, shown_partition


def test_all_columns_that_paths_name_hide_every_value_of_these_paths() -> None:
    paths = ["day=1/a%20b=needle", "day=2/c=needle"]
    assert columns_in(paths) == {"day", "a b", "c"}
    assert [shown_partition(path, columns_in(paths)) for path in paths] == [
        "day=…/a%20b=…",
        "day=…/c=…",
    ]
