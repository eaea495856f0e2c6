"""Every kind of finding stands in the table of docs/cli.md, and no other does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tools.bootstrap import REPO

_CALLS = {("add", 5): 1, ("_add", 5): 1, ("_contradiction", 2): 0}
"""Method that takes a finding, and its number of arguments -> place of the kind among these."""
_PASSED_ON = {"kind"}
"""Names of arguments that are such a kind."""


def in_code() -> Iterator[str]:
    folder = REPO / "include" / "firnline" / "operations" / "verify"
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                place = _CALLS.get((node.func.attr, len(node.args)))
                if place is not None:
                    yield from kinds(node.args[place], f"{path.name}:{node.lineno}")


def kinds(value: ast.expr, where: str) -> Iterator[str]:
    if isinstance(value, ast.Constant):
        yield str(value.value)
    else:
        assert isinstance(value, ast.Name), f"{where}: a kind is a text"
        assert value.id in _PASSED_ON, f"{where}: a kind is a text"


def in_page() -> list[str]:
    page = (REPO / "docs" / "cli.md").read_text(encoding="utf-8")
    table = page[page.index("| severity | kind | |") :].partition("\n\n")[0]
    cells = [line.split("|")[2] for line in table.splitlines()[2:]]
    return [kind for cell in cells for kind in re.findall(r"`([^`]+)`", cell)]


def test_the_page_names_each_kind_of_finding() -> None:
    named = in_page()
    assert sorted(set(named)) == sorted(named), "each once"
    assert sorted(set(in_code())) == sorted(named)
