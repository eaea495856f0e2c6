"""Tables of the mutations: what `python -m tests.mutations --list --markdown` prints."""

from __future__ import annotations

from collections.abc import Iterable

from tests.mutations.catalogue import AREAS, RULES
from tests.mutations.model import SIMULATION, Mutation
from tests.mutations.survivors import SURVIVORS, Survivor

_HEAD = """# What the tests must notice

`make mutations` (`python -m tests.mutations`) makes one mistake after the other in a copy of the
repository and runs the part of `make test` that is to catch it. It ends with 1 when nothing catches
one of them.

    python -m tests.mutations                      # all of them
    python -m tests.mutations "no conflict check"  # one
    python -m tests.mutations --control            # the same parts without a mistake: all pass
    python -m tests.mutations --whole NAME         # all of `make test` instead of the part named

"also unit" says whether `tests/unit` alone catches it. Where it says no, the mistake is what the
slower folder is for; where it says nothing, nobody has looked (`--unit`).

"""
_IN_UNIT = {True: "yes", False: "no", None: ""}
_COLUMNS = """| mistake | in | what it breaks | caught by | also unit |
| --- | --- | --- | --- | --- |
"""
_RULES = """## Rules of the format

Each is switched off within the simulation, which `make test` plays with 500 seeds and the seed of
each rule (`--corpus`).

| rule that is switched off | seed |
| --- | --- |
"""
_SURVIVORS = """
## Conditions that nothing misses

`python -m tests.mutations.conditions MODULE ...` switches each condition of a module off, one at a
time (docs/testing.md). No test misses these, and none has to.

| module | function | condition -> what it may become | why |
| --- | --- | --- | --- |
"""


def markdown() -> str:
    """Return the tables."""
    sections = [_section(title, mutations) for title, mutations in AREAS.items()]
    rules = "".join(f"| {rule.name} | {rule.seed:,} |\n" for rule in RULES)
    survivors = "".join(_survivor(each) for each in SURVIVORS)
    return f"{_HEAD}{''.join(sections)}{_RULES}{rules}{_SURVIVORS}{survivors}"


def _survivor(each: Survivor) -> str:
    switch = each.switch.replace("|", "\\|")
    return f"| {each.module} | `{each.function}` | `{switch}` | {each.why} |\n"


def _section(title: str, mutations: Iterable[Mutation]) -> str:
    rows = "".join(
        f"| {_name(each)} | `{each.file}` | {each.breaks} | {_catchers(each)} | "
        f"{_IN_UNIT[each.unit]} |\n"
        for each in mutations
    )
    return f"## {title}\n\n{_COLUMNS}{rows}\n"


def _name(mutation: Mutation) -> str:
    return mutation.name + (f" (only in `make test-full`: {mutation.full})" * bool(mutation.full))


def _catchers(mutation: Mutation) -> str:
    return ", ".join(
        "the simulation" if each == SIMULATION else f"`{each}`" for each in mutation.caught_by
    )
