"""Estimate the worst-case running time of a regular expression from its structure.

Python's ``re`` backtracks. Where a repeated group can match the same text in two ways, a text of
thirty characters can take hours (``(a+)+b``). So the expression is converted to an automaton, with
one state for each place that reads a character, and the number of paths of one text through it is
estimated:

* two paths from a state back to itself with the same characters: exponential, refused,
* consecutive unbounded repeats that share characters, also with the text between them
  (``.*-.*``): one more power of the text's length for each pair; ``MAX_POWER`` is allowed.

Repeats of distinct characters (``(?:[^/]+/)*``, ``[0-9]+-[0-9]+``) are linear. The estimate errs
to the strict side only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

MAX_LENGTH = 500
"""Characters of an expression at most."""
MAX_POWER = 3
"""Allowed power of the text's length. For 1,000 characters, the longest keys, it means seconds;
one more means an hour."""
_EXACT = 16
"""Upper limit of repeats that are modelled exactly; a longer one counts as unbounded."""
_MAX_STATES = 250
_MAX_LOOPS = 40
_MAX_STEPS = 1_000
"""Edges within one loop at most; all pairs of them are searched, so up to a million."""

_PARSER: Any = import_module("re._parser")  # typeshed does not know it
_SAMPLES = frozenset("09 5azAZmM_-/=.%~:+,\n\téßſK漢٣Ж")  # noqa: RUF001 - letters of several scripts
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
}
_CASELESS = re.compile(r"\(\?[a-zA-Z]*i")
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}

Ways = dict[int, int]
"""State -> number of paths, 2 for two or more."""


def refuse_slow(pattern: str) -> None:
    """Refuse a regular expression that may take very long, or cannot be estimated.

    Args:
        pattern: a valid regular expression.

    Raises:
        ValueError: states the reason and an alternative.
    """
    reason = _reason(pattern)
    if reason is not None:
        raise ValueError(reason)


@lru_cache(maxsize=256)
def _reason(pattern: str) -> str | None:
    if len(pattern) > MAX_LENGTH:
        return f"a regular expression may have {MAX_LENGTH} characters, this one has {len(pattern)}"
    try:
        return _judge(_PARSER.parse(pattern), _CASELESS.search(pattern) is not None)
    except _NotJudgedError as error:
        return f"{pattern!r} {error}"
    except _SlowError as error:
        return f"{pattern!r} may take very long on some names: {error}"


class _SlowError(Exception):
    """The expression may take very long; the text states the reason."""


class _NotJudgedError(Exception):
    """The running time cannot be estimated; the text states the reason."""


@dataclass
class _Piece:
    """The part of the automaton for a part of the expression."""

    empty: int = 1
    """Number of ways to match the empty text."""
    first: Ways = field(default_factory=dict)
    last: Ways = field(default_factory=dict)


@dataclass
class _Automaton:
    reads: list[frozenset[str]] = field(default_factory=list)
    """State -> the sample characters that it may read."""
    follow: dict[int, Ways] = field(default_factory=dict)

    def join(self, last: Ways, first: Ways) -> None:
        for state, ways in last.items():
            _add(self.follow.setdefault(state, {}), first, ways)


def _add(into: Ways, more: Mapping[int, int], times: int = 1) -> None:
    for state, ways in more.items():
        if times:
            into[state] = min(2, into.get(state, 0) + ways * times)


class _Builder:
    """Builds the automaton of a parsed expression."""

    def __init__(self, alphabet: Iterable[str], *, caseless: bool) -> None:
        self.automaton = _Automaton()
        self.alphabet = frozenset(alphabet)
        self.caseless = caseless

    def sequence(self, items: Iterable[Any]) -> _Piece:
        whole = _Piece()
        for item in items:
            whole = self._then(whole, self._item(*item))
        return whole

    def _then(self, one: _Piece, two: _Piece) -> _Piece:
        self.automaton.join(one.last, two.first)
        first, last = dict(one.first), dict(two.last)
        _add(first, two.first, one.empty)
        _add(last, one.last, two.empty)
        return _Piece(min(2, one.empty * two.empty), first, last)

    def _item(self, code: Any, given: Any) -> _Piece:  # noqa: ANN401 - of the private parser
        name = str(code)
        if name in _REPEATS:
            return self._repeat(*given)
        if name == "SUBPATTERN":
            return self.sequence(given[-1])
        if name == "ATOMIC_GROUP":
            return self.sequence(given)
        if name == "BRANCH":
            return self._either([self.sequence(each) for each in given[1]])
        if name in {"ASSERT", "ASSERT_NOT"}:
            _judge(given[1], self.caseless)  # matched separately from the rest
            return _Piece()
        if name == "AT":
            return _Piece()
        if name in {"GROUPREF", "GROUPREF_EXISTS"}:
            raise _NotJudgedError("refers back to a group, so its running time cannot be estimated")
        return self._state(name, given)

    def _state(self, name: str, given: Any) -> _Piece:  # noqa: ANN401 - as above
        reads = frozenset(c for c in self.alphabet if self._reads(name, given, c))
        number = len(self.automaton.reads)
        if number >= _MAX_STATES:
            raise _NotJudgedError("is too large to estimate its running time")
        self.automaton.reads.append(reads)
        return _Piece(0, {number: 1}, {number: 1})

    def _reads(self, name: str, given: Any, char: str) -> bool:  # noqa: ANN401 - as above
        cases = {char, char.lower(), char.upper()} if self.caseless else {char}
        return any(_reads(name, given, case) for case in cases if len(case) == 1)

    def _either(self, pieces: Iterable[_Piece]) -> _Piece:
        whole = _Piece(0)
        for piece in pieces:
            whole.empty = min(2, whole.empty + piece.empty)
            _add(whole.first, piece.first)
            _add(whole.last, piece.last)
        return whole

    def _repeat(self, least: int, most: int, body: Any) -> _Piece:  # noqa: ANN401 - as above
        if most > _EXACT:  # copies of the body; the last one loops
            loop = self.sequence(body)
            self.automaton.join(loop.last, loop.first)
            loop.empty = min(2, loop.empty + (least == 0))
            whole = _Piece()
            for _ in range(min(least, _EXACT) - 1):
                whole = self._then(whole, self.sequence(body))
            return self._then(whole, loop)
        rest = _Piece()
        for _ in range(most - least):
            rest = self._then(self.sequence(body), rest)
            rest.empty = min(2, rest.empty + 1)
        for _ in range(least):
            rest = self._then(self.sequence(body), rest)
        return rest


def _reads(name: str, given: Any, char: str) -> bool:  # noqa: ANN401 - of the private parser
    """Return True if an item may match the character."""
    if name == "ANY":
        return True
    if name == "NOT_LITERAL":
        return char != chr(given)
    if name == "LITERAL":
        return char == chr(given)
    if name == "RANGE":
        return bool(given[0] <= ord(char) <= given[1])
    if name == "CATEGORY":
        kind = str(given)
        return _CATEGORIES[kind.replace("_NOT_", "_")](char) != ("_NOT_" in kind)
    if name == "IN":
        negated = str(given[0][0]) == "NEGATE"
        inside = any(_reads(str(code), each, char) for code, each in given[negated:])
        return inside != negated
    raise _NotJudgedError("has an element that is unknown here")


def _judge(parsed: Any, caseless: bool) -> str | None:  # noqa: ANN401 - as above
    """Raise _SlowError or _NotJudgedError, or return None."""
    builder = _Builder(_alphabet(parsed), caseless=caseless)
    builder.sequence(parsed)
    machine = builder.automaton
    loops = [c for c in _components(machine.follow) if _goes_round(machine.follow, c)]
    if len(loops) > _MAX_LOOPS:
        raise _NotJudgedError("has too many repeats to estimate its running time")
    for loop in loops:
        if _two_ways_round(machine, loop):
            raise _SlowError(
                "a repeated piece can read the same text in several ways; write what is repeated "
                "so that it ends with a character that it has nowhere else, as (?:[^/]+/)*"
            )
    power = _power(machine, loops)
    if power > MAX_POWER:
        raise _SlowError(
            f"{power + 1} unbounded repeats can divide the text among them in any way; write "
            "[^/]* or \\d+ instead of .*"
        )
    return None


def _alphabet(parsed: Any) -> frozenset[str]:  # noqa: ANN401 - as above
    """Return sample characters: fixed ones, those in the expression, and their neighbours."""
    characters = set(_SAMPLES)
    todo = [parsed]
    while todo:
        each = todo.pop()
        if isinstance(each, int) and 0 < each < 0x10FFFF and not str(each).isupper():
            characters |= {chr(each - 1), chr(each), chr(each + 1)}
        elif isinstance(each, tuple | list) or hasattr(each, "data"):
            todo += list(each)
    return frozenset(characters)


def _goes_round(follow: Mapping[int, Ways], component: frozenset[int]) -> bool:
    return len(component) > 1 or any(state in follow.get(state, {}) for state in component)


def _two_ways_round(machine: _Automaton, loop: frozenset[int]) -> bool:
    """Return True if one text leads from a state back to itself in two ways."""
    inside = {s: {t: w for t, w in machine.follow.get(s, {}).items() if t in loop} for s in loop}
    if any(ways > 1 for targets in inside.values() for ways in targets.values()):
        return True
    if sum(map(len, inside.values())) > _MAX_STEPS:
        raise _NotJudgedError("is too large to estimate its running time")
    pairs = {
        (one, two): {
            (to_one, to_two): 1
            for to_one in inside[one]
            for to_two in inside[two]
            if machine.reads[to_one] & machine.reads[to_two]
        }
        for one in loop
        for two in loop
    }
    return any(
        any(one == two for one, two in component) and any(one != two for one, two in component)
        for component in _components(pairs)
    )


def _power(machine: _Automaton, loops: list[frozenset[int]]) -> int:
    """Return the most consecutive loops, less one, where each can take text of the one before."""
    reads = [frozenset[str]().union(*(machine.reads[s] for s in loop)) for loop in loops]
    shares = {
        n: [m for m in range(len(loops)) if m != n and _shares(machine, loops, reads, n, m)]
        for n in range(len(loops))
    }
    longest: dict[int, int] = {}

    def after(number: int) -> int:
        if number not in longest:
            longest[number] = max((1 + after(m) for m in shares[number]), default=0)
        return longest[number]

    return max(map(after, shares), default=0)


def _shares(
    machine: _Automaton,
    loops: list[frozenset[int]],
    reads: list[frozenset[str]],
    one: int,
    two: int,
) -> bool:
    """Return True if a path from one loop to another reads only characters that both may read."""
    both = reads[one] & reads[two]
    seen = set(loops[one])
    todo = list(seen)
    while todo:
        for target in machine.follow.get(todo.pop(), {}):
            if target not in seen and machine.reads[target] & both:
                if target in loops[two]:
                    return True
                seen.add(target)
                todo.append(target)
    return False


def _components(follow: Mapping[Any, Mapping[Any, int]]) -> list[frozenset[Any]]:
    """Return the strongly connected components of a graph."""
    order: list[Any] = []
    seen: set[Any] = set()
    for start in follow:
        _walk(start, follow, seen, order)
    back: dict[Any, dict[Any, int]] = {}
    for state, targets in follow.items():
        for target in targets:
            back.setdefault(target, {})[state] = 1
    components: list[frozenset[Any]] = []
    seen = set()
    for start in reversed(order):
        component: list[Any] = []
        _walk(start, back, seen, component)
        if component:
            components.append(frozenset(component))
    return components


def _walk(
    start: Any,  # noqa: ANN401 - states, or pairs of them
    follow: Mapping[Any, Mapping[Any, int]],
    seen: set[Any],
    done: list[Any],
) -> None:
    """Append the states reachable from ``start`` to ``done``, depth first, in post-order."""
    if start in seen:
        return
    seen.add(start)
    path = [(start, iter(follow.get(start, {})))]
    while path:
        state, targets = path[-1]
        target = next((t for t in targets if t not in seen), None)
        if target is None:
            done.append(state)
            path.pop()
        else:
            seen.add(target)
            path.append((target, iter(follow.get(target, {}))))
