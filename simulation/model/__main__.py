"""Search the worlds of the model.

python -m simulation.model                       # every world, every rule switched off, liveness
python -m simulation.model --full                # larger worlds, too
python -m simulation.model outputs numbers       # only these worlds
python -m simulation.model --break "RULE"        # the shortest way to what is broken without it
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from simulation.model.liveness import PROMISES, measure
from simulation.model.rules import RULES, Rule
from simulation.model.search import Explored, explore
from simulation.model.worlds import EVERY_RUN, IN_FULL, WORLDS, World

_LINE = "{:58} {:>9} {:>5} {:>7}  {}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a world breaks something, or a rule that is switched off is not found."""
    options = _parse(arguments)
    if options.rule:
        return int(not _break(options.rule, options.worlds))
    worlds = [WORLDS[name] for name in options.worlds]
    right = _search(worlds or [*EVERY_RUN, *(IN_FULL if options.full else ())])
    if not worlds:
        right &= _switch_off()
        right &= _go_on()
    return int(not right)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulation.model")
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help="one of: " + ", ".join(WORLDS))
    parser.add_argument("--break", dest="rule", metavar="RULE", help="switch a rule off")
    parser.add_argument("--full", action="store_true", help="larger worlds, too")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.worlds if name not in WORLDS]
    if unknown:
        parser.error(f"no world is called {unknown[0]!r}")
    if options.rule and options.rule not in {rule.name for rule in RULES}:
        parser.error("the rules are: " + "; ".join(rule.name for rule in RULES))
    return options


def _search(worlds: Sequence[World]) -> bool:
    """Search worlds with all rules; return False if one breaks something."""
    print(_LINE.format("world", "states", "depth", "seconds", "result"))
    right = True
    for world in worlds:
        found = explore(world.model(frozenset()))
        _print(world.name, found, found.found or "clean")
        _tell(found)
        right &= found.found is None
    return right


def _switch_off() -> bool:
    """Switch one rule off at a time; return False if one is not found."""
    print(_LINE.format("\nrule that is switched off", "states", "steps", "seconds", "found"))
    right = True
    for rule in RULES:
        found = explore(WORLDS[rule.world].model(rule.off))
        _print(rule.name, found, f"{found.found or 'NOT FOUND'} ({rule.world})")
        right &= is_found(rule, found)
        if rule.beside:
            # Those beside it alone break nothing in this world: it is this rule that is found.
            alone = explore(WORLDS[rule.world].model(frozenset(rule.beside)))
            _print("  with only what backs it up off", alone, alone.found or "clean")
            right &= alone.found is None
    return right


def is_found(rule: Rule, found: Explored) -> bool:
    """Return True if a search has found what a rule is for."""
    return found.found is not None and found.found.startswith(rule.breaks)


def _go_on() -> bool:
    """Measure in how many steps is completed what begins once faults have stopped."""
    print(
        _LINE.format("\nonce faults stop, from every state", "states", "steps", "seconds", "result")
    )
    right = True
    for promise in PROMISES:
        took = measure(promise)
        result = took.broken or f"within {promise.k} steps ({promise.world})"
        print(_LINE.format(promise.what, took.states, took.steps, f"{took.seconds:.1f}", result))
        right &= not took.broken
    return right


def _break(name: str, worlds: Sequence[str]) -> bool:
    """Print the shortest way to what is broken; return False if nothing is."""
    rule = next(rule for rule in RULES if rule.name == name)
    found = explore(WORLDS[worlds[0] if worlds else rule.world].model(rule.off))
    print(_LINE.format("rule that is switched off", "states", "steps", "seconds", "found"))
    _print(rule.name, found, found.found or "NOT FOUND")
    _tell(found)
    return found.found is not None if worlds else is_found(rule, found)


def _print(name: str, found: Explored, result: str) -> None:
    seconds = f"{found.seconds:.1f}"
    print(_LINE.format(name, f"{found.states:,}", found.depth, seconds, result), flush=True)


def _tell(found: Explored) -> None:
    for number, step in enumerate(found.trace, 1):
        print(f"  {number:2} {step}")


if __name__ == "__main__":
    sys.exit(main())
