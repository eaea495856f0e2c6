"""The daemon of Python workers on a local master."""

from __future__ import annotations

import os

import pytest

from firnline.spark.daemon import quietly


class _Gone(BaseException):
    """The process has ended."""


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_worker_whose_driver_is_gone_ends_and_says_nothing(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(code: int) -> None:
        raise _Gone(code)

    def work(*_: object) -> int:
        raise error

    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(_Gone, match="1"):
        quietly(work)("socket", True)


def test_a_worker_answers_and_fails_as_that_of_pyspark() -> None:
    def work(number: int) -> int:
        return 2 // number

    assert quietly(work)(1) == 2
    with pytest.raises(ZeroDivisionError):
        quietly(work)(0)
