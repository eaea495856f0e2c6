"""What Spark's S3 connector is told of a store, and what it is not told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from firnline.spark.format.s3a import s3a_options
from firnline.store.access import StoreAccess
from tests.support.session import Connected

ENDPOINT = "http://store:9000"
OURS = StoreAccess(endpoint=f"{ENDPOINT}/", access_key="KEY", secret_key="SECRET")
ALL = {
    "fs.s3a.endpoint": ENDPOINT,
    "fs.s3a.endpoint.region": "us-east-1",
    "fs.s3a.path.style.access": "true",
}


@dataclass
class Session:
    """As much of a classic session as says what is configured; it is its own context and JVM."""

    conf: Mapping[str, str] = field(default_factory=dict)
    hadoop: Mapping[str, str] = field(default_factory=dict)
    """Of Hadoop's files or ``spark.hadoop``; its own default of the addressing is below it."""

    @property
    def sparkContext(self) -> Self:  # noqa: N802 -- Spark's
        return self

    @property
    def _jsc(self) -> Self:
        return self

    def hadoopConfiguration(self) -> Self:  # noqa: N802 -- Hadoop's
        return self

    def get(self, key: str) -> str | None:
        return self.hadoop.get(key)

    def getPropertySources(self, key: str) -> list[str] | None:  # noqa: N802 -- Hadoop's
        if key in self.hadoop:
            return ["core-site.xml"]
        return ["core-default.xml"] if key == "fs.s3a.path.style.access" else None


def told(access: StoreAccess, conf: Any = None, hadoop: Any = None) -> dict[str, str]:
    session: Any = Session(conf or {}, hadoop or {})
    return s3a_options(session, "lake", access)


def test_a_session_that_states_nothing_is_told_where_firnline_reads_and_no_key() -> None:
    assert told(OURS) == ALL


def test_the_region_is_that_of_the_access_and_else_the_one_that_firnline_signs_for() -> None:
    env = {"AWS_ENDPOINT_URL": ENDPOINT, "AWS_REGION": "eu-west-1"}
    assert told(StoreAccess.from_env(env))["fs.s3a.endpoint.region"] == "eu-west-1"
    assert told(OURS)["fs.s3a.endpoint.region"] == "us-east-1"


def test_a_store_that_is_amazons_is_found_by_the_connector_itself() -> None:
    assert told(StoreAccess(region="eu-west-1")) == {}


@pytest.mark.parametrize("name", ["endpoint", "endpoint.region", "path.style.access"])
@pytest.mark.parametrize(
    "stated",
    ["conf fs.s3a.", "conf spark.hadoop.fs.s3a.", "hadoop fs.s3a.", "hadoop fs.s3a.bucket.lake."],
)
def test_what_somebody_has_stated_is_not_told_again(name: str, stated: str) -> None:
    where, _, prefix = stated.partition(" ")
    value = ENDPOINT if name == "endpoint" else "theirs"
    found = told(OURS, **{where: {f"{prefix}{name}": value}})
    assert found == {key: said for key, said in ALL.items() if key != f"fs.s3a.{name}"}


@pytest.mark.parametrize("endpoint", [f"{ENDPOINT}/", "store:9000"])
def test_the_same_endpoint_in_other_words_is_the_same(endpoint: str) -> None:
    found = told(OURS, conf={"spark.hadoop.fs.s3a.endpoint": endpoint})
    assert found.keys() == {"fs.s3a.endpoint.region", "fs.s3a.path.style.access"}


@pytest.mark.parametrize("name", ["fs.s3a.endpoint", "fs.s3a.bucket.lake.endpoint"])
def test_a_session_that_reads_from_elsewhere_is_left_alone(name: str) -> None:
    assert told(OURS, hadoop={name: "http://elsewhere:9000"}) == {}


def test_another_buckets_endpoint_is_not_this_ones() -> None:
    assert told(OURS, hadoop={"fs.s3a.bucket.other.endpoint": "http://elsewhere:9000"}) == ALL


def test_a_connect_server_has_a_configuration_of_its_own() -> None:
    session: Any = Connected()
    assert s3a_options(session, "lake", OURS) == {}
