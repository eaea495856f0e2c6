"""docs/notebook.md as a file that Jupyter opens: docs/notebook.ipynb.

    python -m tools.notebook        write it

Blocks of Python are cells, and the block of text behind one is its output. Tests run the page, and
compare the file with it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tools.bootstrap import REPO

PAGE = REPO / "docs" / "notebook.md"
FILE = REPO / "docs" / "notebook.ipynb"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def notebook(page: str) -> str:
    """The text of the notebook."""
    cells, end = [], 0
    for block in _BLOCK.finditer(page):
        cells.append(_words(page[end : block.start()]))
        cells.append(_code(block[1], block[2]))
        end = block.end()
    cells.append(_words(page[end:]))
    found = [{"id": f"cell-{n}", **cell} for n, cell in enumerate(filter(None, cells))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": found,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _words(text: str) -> dict[str, Any]:
    source = text.strip().splitlines(keepends=True)
    return {"cell_type": "markdown", "metadata": {}, "source": source} if source else {}


def _code(code: str, printed: str | None) -> dict[str, Any]:
    output = {"name": "stdout", "output_type": "stream"}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [{**output, "text": printed.splitlines(keepends=True)}] if printed else [],
        "source": code.rstrip("\n").splitlines(keepends=True),
    }


if __name__ == "__main__":
    FILE.write_text(notebook(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
