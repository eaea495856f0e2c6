"""Makes one mistake after the other in a copy of the repository and runs what is to catch it.

python -m tests.mutations [NAME ...] [--control] [--whole | --unit] [--list [--markdown]]

Exit code 1 when one is not caught or cannot be made any more; with --unit, when the page is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from tests.mutations.catalogue import RULES, SOURCES
from tests.mutations.catching import Part, control, try_it
from tests.mutations.copy import Copy, copy_of_the_repository
from tests.mutations.model import Mutation, Rule
from tests.mutations.page import markdown


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    given = _parser().parse_args(arguments)
    if given.list:
        print(markdown() if given.markdown else "".join(_lines()), end="")
        return 0
    every: tuple[Mutation | Rule, ...] = (*SOURCES, *RULES)
    chosen = [each for each in every if not given.names or each.name in given.names]
    if given.part == "unit":
        chosen = [each for each in chosen if isinstance(each, Mutation)]
    unknown = set(given.names) - {each.name for each in chosen}
    if unknown:
        print(f"there is no mutation {sorted(unknown)[0]!r}; --list names them", file=sys.stderr)
        return 2
    with copy_of_the_repository() as copy:
        if given.control:
            return _tell_control(control(copy, chosen, given.part))
        wrong = [each for each in chosen if not _try(copy, each, given.part)]
    print(f"{len(chosen) - len(wrong)} of {len(chosen)} are as --list says")
    for each in wrong:
        print(f"  not so: {each.name}")
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutations")
    parser.add_argument("--list", action="store_true", help="print the mutations")
    parser.add_argument("--markdown", action="store_true", help="with --list: tables")
    parser.add_argument("--control", action="store_true", help="without a mutation: must pass")
    part = parser.add_mutually_exclusive_group()
    for name, text in (
        ("whole", "all of `make test` instead of the part that is named"),
        ("unit", "tests/unit instead: whether the page is right about what it catches"),
    ):
        part.add_argument(f"--{name}", dest="part", action="store_const", const=name, help=text)
    parser.set_defaults(part="named")
    return parser


def _lines() -> Iterable[str]:
    for each in SOURCES:
        yield f"{each.name}\t{each.file}\t{each.breaks}\n"
    for rule in RULES:
        yield f"{rule.name}\tthe simulation\tseed {rule.seed}\n"


def _try(copy: Copy, mutation: Mutation | Rule, part: Part) -> bool:
    """Print a line of the table; return whether it says what --list says."""
    caught = try_it(copy, mutation, part)
    what = caught.problem or caught.by or "NOTHING"
    print(f"{mutation.name:60} {caught.seconds:6.1f} s  {what[:200]}", flush=True)
    if part == "unit" and isinstance(mutation, Mutation):
        return not caught.problem and mutation.unit in (bool(caught.by), None)
    return not caught.problem and bool(caught.by)


def _tell_control(failed: str) -> int:
    print(f"without a mutation: {failed or 'all pass'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
