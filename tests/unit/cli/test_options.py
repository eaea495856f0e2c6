"""The options of an operation on a command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import typer

from firnline.cli.app import app
from firnline.cli.options import _parameter, _struct, _value
from tests.support.cli import inside


def functions(group: typer.Typer) -> Iterator[Callable[..., None]]:
    """Every command's function, as it stands in its module."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield inspect.unwrap(command.callback)
    for below in group.registered_groups:
        assert below.typer_instance is not None
        yield from functions(below.typer_instance)


STRUCTS = {
    f"{function.__name__} {parameter.name}": found
    for function in functions(app)
    for parameter in inspect.signature(function, eval_str=True).parameters.values()
    if (found := _struct(parameter)) is not None
}


@pytest.mark.parametrize("name", STRUCTS)
def test_a_command_line_without_options_means_their_defaults(name: str) -> None:
    options, fields = STRUCTS[name]
    required: dict[str, Any] = {
        one.name: "x" for one in msgspec.structs.fields(options) if one.required
    }
    given = {
        one.name: _value(one, _parameter(one).default) for one in fields if one.name not in required
    }
    assert options(**required | given) == options(**required)


EV = ["rewrite", "file:///nowhere/t", "--where", "a <> 1"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ([*EV, "--where", "b <> 1"], "--where is given twice; give it once"),
        ([*EV, "--from", "", "--until", ""], "start_ms (--from) is empty; write a value"),
        ([*EV, "--commit", ""], "--commit is empty; write a value, or leave it out"),
        ([*EV, "--settings", ""], "--settings is empty"),
        ([*EV, "--scratch="], "--scratch is empty"),
        ([*EV, "--partitions", "a", "--partitions", " "], "one of partitions is empty"),
        (["read", "file:///nowhere/t", "--columns", ""], "--columns is empty"),
        (["read", "file:///nowhere/t", "--limit", "1", "--limit", "2"], "--limit is given twice"),
        (["init", "t", "--sort-by", "a", "--sort-by", ""], "--sort-by is empty"),
        (["erase", "file:///nowhere/t", "--column", "a", "--keys", ""], "keys_file (--keys) is"),
    ],
)
def test_what_is_empty_or_given_twice_is_refused_before_anything_is_read(
    capsys: pytest.CaptureFixture[str], line: list[str], said: str
) -> None:
    done = inside(capsys)(*line)
    assert (done.code, done.out) == (2, "")
    assert said in done.sentence


def test_a_key_may_be_the_empty_text(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["erase", "file:///nowhere/t", "--column", "a", "--key", "", "--key", "b", "--dry-run"]
    assert "there is no table at" in inside(capsys)(*line).sentence


def test_flags_and_help_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert inside(capsys)("merge", "--help", "--settings", "", "--help").code == 0
    twice = inside(capsys)("merge", "file:///nowhere/t", "--full", "--full", "--dry-run")
    assert "there is no table at" in twice.sentence
