"""Names in docstrings that are nowhere are found, and those that are there are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docnames import stale

SIZES = '''
"""Sizes."""

LARGEST = 7
"""Bytes."""


class Size:
    """A size."""

    bytes_in: int
    """Bytes."""

    def __init__(self) -> None:
        self.seen = 0

    def written(self) -> str:
        """Return it as text."""
        return "bytes_read"


class Larger(Size, Exception):
    """A larger one."""


def _hidden() -> None:
    pass
'''
SECTIONS = """
class Sections:
    sizes: int
    split_above: int
"""


def found(root: Path, docstring: str) -> list[str]:
    """Return the stale names of a docstring in a module beside others."""
    files = {
        "include/firnline/state/sizes.py": SIZES,
        "include/firnline/settings/sections.py": SECTIONS,
        "include/firnline/state/other.py": (
            f'def act(size: int) -> None:\n    """{docstring}"""\n\n\n'
            "def _own() -> None:\n    act(size=1)\n"
        ),
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return [each.name for each in stale(root)]


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "size",
        "LARGEST",
        "Size",
        "Size.written",
        "Size.seen",
        "Larger.bytes_in",
        "Larger.add_note",
        "sizes.LARGEST",
        "state.sizes.Size.written",
        "firnline.state.sizes",
        "firnline.state.sizes._hidden",
        "_own",
        "act()",
        "size.bytes_in",
        "bytes_read",
        "sizes.split_above",
        "ValueError",
        "FIRNLINE_OTHER",
        "merge__flights",
        "tables.yaml",
        "s3://bucket/gone",
        "--gone",
        "SELECT gone",
    ],
)
def test_what_is_there_is_not_found(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, f"See ``{name}``.") == []


@pytest.mark.parametrize(
    "name",
    [
        "gone",
        "gone_too()",
        "GONE",
        "_hidden",
        "Size.gone",
        "Size._own",
        "sizes.act",
        "state.sizes.gone",
        "state.gone.LARGEST",
        "firnline.sizes.LARGEST",
    ],
)
def test_what_is_nowhere_is_found(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, f"See ``size`` and ``{name}``.") == [name]


def test_a_docstring_of_an_attribute_is_looked_at_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "tools" / "one.py"
    path.parent.mkdir()
    path.write_text('A = 1\n"""As ``gone`` says."""\n', encoding="utf-8")
    assert [str(each) for each in stale(tmp_path)] == ["tools/one.py:2: nothing is called ``gone``"]
