"""docs/cli.md speaks of the commands there are, and of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from firnline.cli.app import root_command
from tests.support.cli import Outcome
from tools.bootstrap import REPO

TEXT = (REPO / "docs" / "cli.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^ {4}\$ (firnline .+)$", TEXT, re.MULTILINE)


def commands() -> Iterator[str]:
    """``append``, …, ``plan merge``, ``settings check``: everything one can call."""
    whole = root_command()
    for name, command in getattr(whole, "commands", {}).items():
        below = getattr(command, "commands", None)
        yield from [name] if below is None else [f"{name} {inner}" for inner in below]


@pytest.mark.parametrize("command", list(commands()))
def test_every_command_has_a_heading_and_an_example(command: str) -> None:
    assert re.search(rf"^## .*`firnline {command}`", TEXT, re.MULTILINE)
    assert any(f"{line} ".startswith(f"firnline {command} ") for line in EXAMPLES) or (
        command == "settings show"
    )


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_uses_options_that_there_are(
    line: str, firnline: Callable[..., Outcome]
) -> None:
    words = line.split(" > ", maxsplit=1)[0].split()[1:]
    name = next(known for known in commands() if " ".join(words).startswith(known))
    offered = firnline(*name.split(), "--help").out
    for word in words:
        if word.startswith("--"):
            assert word in offered
