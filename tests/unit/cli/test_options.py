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
