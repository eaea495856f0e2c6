"""Jobs of a function and numbers, on both kinds of sessions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from firnline.spark.tasks import Function, collect, is_connect
from tests.support.session import Classic, Connected


def texts(number: int) -> list[str]:
    """None for 0, one for 1, two for 2."""
    return [f"{number}-{text}" for text in range(number)]


def one_by_one(number: int) -> Iterator[str]:
    yield from texts(number)


@pytest.mark.parametrize("function", [texts, one_by_one])
@pytest.mark.parametrize("kind", [Classic, Connected])
def test_a_job_returns_all_texts_of_all_numbers(
    kind: type[Classic | Connected], function: Function
) -> None:
    session = kind()
    found = collect(session, function, 3, 2)  # type: ignore[arg-type] # a stand-in
    assert sorted(found) == ["1-0", "2-0", "2-1"]
    assert session.jobs == [2]


def test_only_a_connect_server_has_no_rdds() -> None:
    assert is_connect(Connected())  # type: ignore[arg-type] # a stand-in
    assert not is_connect(Classic())  # type: ignore[arg-type] # a stand-in
