"""Generated tables of docs/: settings, options of commands, params, errors, objects, figures.

    python -m tools.reference write [PAGE...]   regenerate the tables of the pages
    python -m tools.reference check [PAGE...]   exit 1 and name the tables that are stale

A page is ``settings-reference``, ``cli``, ``why``, ``help``, ``format``, ``airflow`` or
``support``; without one, all. ``airflow`` imports Airflow, which takes two seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.bootstrap import REPO
from tools.reference import benchmarks, cli, dags, errors, objects, settings, support
from tools.reference.markdown import PageError, fill, stale

DOCS = REPO / "docs"
COMMAND = "python -m tools.reference write"

_BLOCKS: dict[str, Callable[[], dict[str, str]]] = {
    "settings-reference": settings.blocks,
    "cli": cli.blocks,
    "why": benchmarks.blocks,
    "help": errors.blocks,
    "format": objects.blocks,
    "airflow": dags.blocks,
    "support": support.blocks,
}
PAGES = tuple(_BLOCKS)


def write(pages: Sequence[str] = PAGES, docs: Path = DOCS) -> list[str]:
    """Regenerate the blocks of pages. Returns the names of the files that changed.

    Raises:
        PageError: a page lacks a block, or has one that nothing is generated for.
    """
    changed = []
    for page in pages:
        path = docs / f"{page}.md"
        before = path.read_text(encoding="utf-8")
        try:
            after = fill(before, _BLOCKS[page]())
        except PageError as error:
            raise PageError(f"docs/{path.name}: {error}") from None
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path.name)
    return changed


def check(pages: Sequence[str] = PAGES, docs: Path = DOCS) -> list[str]:
    """Return one sentence for every block that is stale, and for every page of another form."""
    return [line for page in pages for line in problems(docs / f"{page}.md", _BLOCKS[page]())]


def problems(path: Path, blocks: dict[str, str]) -> list[str]:
    """Return one sentence for every block of a page that is not the generated one."""
    try:
        names = stale(path.read_text(encoding="utf-8"), blocks)
    except PageError as error:
        return [f"docs/{path.name}: {error}"]
    return [f"docs/{path.name}: the block {name!r} is stale; run `{COMMAND}`" for name in names]


def main(arguments: Sequence[str], docs: Path = DOCS) -> int:
    """Run one command line. Returns the exit code."""
    action, *pages = arguments or ("",)
    if action not in ("write", "check") or not set(pages) <= set(PAGES):
        print(__doc__, file=sys.stderr)
        return 2
    if action == "check":
        found = check(pages or PAGES, docs)
        print("\n".join(found), end="\n" if found else "")
        return 1 if found else 0
    try:
        changed = write(pages or PAGES, docs)
    except PageError as error:
        print(error)
        return 1
    print("\n".join(f"docs/{name} written" for name in changed) or "nothing to write")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
