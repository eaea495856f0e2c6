from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest

from firnline.airflow.examples import examples_of
from firnline.airflow.params import form_params
from firnline.operations.options import MergeOptions, RewriteOptions
from firnline.settings.load import TableSettings


def table(**settings: Any) -> TableSettings:
    return TableSettings(name="t", root="s3://bucket/t", **settings)


@pytest.mark.parametrize(
    ("partition_by", "glob", "path"),
    [
        ([], "*", ""),
        (["day(ts)"], "ts_day=2024-03-*", "ts_day=2024-03-05"),
        (["carrier", "month(ts)"], "carrier=*/ts_month=2024-*", "carrier=AA/ts_month=2024-03"),
        (["year(ts)", "carrier"], "ts_year=2024/*", "ts_year=2024/carrier=AA"),
        (["hour(ts)", "carrier"], "ts_hour=2024-03-05-*", "ts_hour=2024-03-05-07/carrier=AA"),
        (["bucket(16, user)"], "user_bucket=*", "user_bucket=7"),
        (["a b"], "a%20b=*", "a%20b=7"),
    ],
)
def test_the_example_of_a_glob_selects_partitions_of_the_table(
    partition_by: list[str], glob: str, path: str
) -> None:
    assert examples_of(table(partition_by=partition_by)).get("glob") == glob
    assert fnmatchcase(path, glob)


def test_examples_of_conditions_name_a_column_of_the_table() -> None:
    found = examples_of(table(sort_by=["Order No", "ts"]))
    assert found["condition"] == '"Order No" is not null'
    assert found["query"] == 'select * from _rows where "Order No" is not null'
    assert set(examples_of(table())) == {"glob"}


def test_a_form_of_one_table_shows_its_own_examples() -> None:
    params = form_params(RewriteOptions, table(partition_by=["day(ts)"], sort_by=["carrier"]))
    shown = {name: param.schema["description_md"] for name, param in params.items()}
    assert "`ts_day=2024-03-*`" in shown["partitions"]
    assert "`carrier is not null`" in shown["where"]
    assert not [text for text in shown.values() if "2013" in text or "dep_delay" in text]


def test_a_form_of_all_tables_stays_general() -> None:
    text = form_params(MergeOptions)["partitions"].schema["description_md"]
    assert "`ts_month=2013-*`" in text
