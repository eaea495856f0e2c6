"""Mirrors in the settings: names of formats, or formats with their settings."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from firnline.properties.in_force import from_settings, in_force
from firnline.settings.load import TableSettings
from firnline.settings.mirrors import Mirror


def settings(mirror: object) -> TableSettings:
    return TableSettings.model_validate({"name": "t", "root": "file:///t", "mirror": mirror})


def test_a_name_alone_takes_the_defaults() -> None:
    found = settings(["delta"])
    assert found.mirrors == ("delta",)
    assert found.delta is not None
    assert found.delta.every == 60_000


def test_a_format_takes_settings_of_its_own_and_is_written_with_them() -> None:
    found = settings([{"delta": {"every": "10m"}}])
    assert found.delta is not None
    assert found.delta.every == 600_000
    assert found.model_dump(mode="json")["mirror"] == [{"delta": {"every": "10m"}}]
    assert settings(found.model_dump(mode="json")["mirror"]) == found
    for short in ("delta", {"delta": None}):
        assert Mirror.model_validate(short).model_dump_json() == '"delta"'


def test_a_table_without_mirrors_has_no_settings_of_one() -> None:
    assert settings([]).delta is None


def test_an_iceberg_mirror_names_its_place_in_a_catalog() -> None:
    where = {"catalog": "lake", "name": "ns.{table}", "properties": {"type": "sql"}}
    found = settings(["delta", {"iceberg": where}])
    assert found.mirrors == ("delta", "iceberg")
    assert found.iceberg is not None
    assert (found.iceberg.catalog, found.iceberg.name) == ("lake", "ns.{table}")
    assert settings(found.model_dump(mode="json")["mirror"]) == found
    # Enough for clean-up: what the table itself says, in a file that knows no catalog.
    bare = settings(["iceberg"]).iceberg
    assert bare is not None
    assert bare.catalog is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("hudi", "one mirror is one of delta, iceberg, alone or with settings"),
        ({"delta": {}, "hudi": {}}, "one mirror is one of"),
        ({"delta": {"evry": "1m"}}, "mirror.0.delta.evry"),
        ({"delta": {"every": "1s"}}, "between 10s and 1d"),
        ({"delta": {"deletes": "show"}}, "mirror.0.delta.deletes"),
        ({"iceberg": {"name": "flights"}}, "a namespace and a name"),
        ({"iceberg": {"name": "ns."}}, "a namespace and a name"),
        ({"iceberg": {"name": "ns.{tabel}"}}, "only {table} stands for something"),
        ({"iceberg": {"name": "ns.{table}}"}}, "only {table} stands for something"),
        ({"iceberg": {"properties": {"token": "x"}}}, "may hold a credential"),
        (
            {"iceberg": {"properties": {"header.Authorization": "Bearer x"}}},
            "may hold a credential",
        ),
        ({"iceberg": {"properties": {"s3.secret-access-key": "x"}}}, "may hold a credential"),
        ({"iceberg": {"properties": {"uri": "postgresql://a:b@host/d"}}}, "may hold a credential"),
        (7, "one mirror is one of"),
    ],
)
def test_a_mistake_is_named(given: object, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings([given])
    assert said in str(caught.value)


def test_lazy_deletes_need_a_mirror_with_vectors() -> None:
    lazy = {"name": "t", "root": "file:///t", "deletes": "lazy"}
    with pytest.raises(ValidationError, match="go together only with deletion vectors"):
        TableSettings.model_validate({**lazy, "mirror": ["delta"]})
    vectors = [{"delta": {"deletes": "vectors"}}]
    assert TableSettings.model_validate({**lazy, "mirror": vectors}).mirrors == ("delta",)
    # A table that says both is read and maintained with settings that say neither.
    bare = TableSettings.model_validate({"name": "t", "root": "file:///t"})
    stated = from_settings(TableSettings.model_validate({**lazy, "mirror": vectors}))
    assert in_force(bare, stated).deletes == "lazy"


@pytest.mark.parametrize("given", ["delta", {"delta": {"every": "10m"}}])
def test_one_format_without_a_list_is_told_to_be_one(given: object) -> None:
    with pytest.raises(ValidationError, match=r"must be a list, such as \[delta\]"):
        settings(given)


@pytest.mark.parametrize(
    ("mirror", "is_refused"),
    [
        ([], False),
        ([{"delta": {"deletes": "vectors"}}], False),
        (["delta"], True),
        ([{"iceberg": {"catalog": "lake", "name": "lake.t"}}], True),
    ],
)
def test_a_ttl_of_rows_needs_a_mirror_that_can_leave_rows_out(
    mirror: list[object], is_refused: bool
) -> None:
    ttl = {"keep": "9d", "column": "ts", "rows": True}
    given = {"name": "t", "root": "file:///t", "mirror": mirror, "ttl": ttl}
    if not is_refused:
        assert TableSettings.model_validate(given).ttl is not None
        return
    with pytest.raises(ValidationError, match="stand still until a merge after each run"):
        TableSettings.model_validate(given)
