"""Names of the programs that Python source starts or looks for, as far as it writes them down."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from textwrap import dedent

_STARTS = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output"},
    "shutil": {"which"},
}
_OTHER_WAYS = {
    "os": ("system", "popen", "exec", "spawn", "posix_spawn"),
    "pty": ("spawn",),
    "asyncio": ("create_subprocess",),
}
"""Module -> beginnings of functions that start programs where nobody looks at the name."""
_OTHER = re.compile(
    "|".join(rf"\b{module}\.({'|'.join(names)})" for module, names in _OTHER_WAYS.items())
)


def names_in(source: str) -> set[str]:
    """Return the first words of commands, and the names that are looked up on the PATH.

    A command that is built elsewhere, or from values, has no name here.
    """
    if not any(f"{module}." in source for module in _STARTS):
        return set()
    tree = ast.parse(source)
    bound = _assigned(tree)
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node.func, _STARTS) and node.args:
            found |= _first_words(node.args[0], bound, frozenset())
    for script in _scripts(tree):
        found |= names_in(script)
    return {name.rsplit("/", 1)[-1] for name in found}


def other_ways_in(source: str) -> list[str]:
    """Return calls that start programs by other functions than those of ``subprocess``."""
    if not _OTHER.search(source):
        return []
    return [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr.startswith(_OTHER_WAYS.get(node.value.id, ()))
    ]


def _called(func: ast.expr, known: dict[str, set[str]]) -> bool:
    return (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.attr in known.get(func.value.id, ())
    )


def _scripts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts that are programs of Python which start others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if "subprocess." not in node.value or "\n" not in node.value:
                continue
            try:
                ast.parse(text := dedent(node.value))
            except SyntaxError:
                continue
            yield text


def _assigned(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Return the values of each name, also those that a loop takes one after the other."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _pairs(target, node.value)]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.For | ast.comprehension):
            each = node.iter.elts if isinstance(node.iter, ast.Tuple | ast.List) else []
            pairs = [(node.target, value) for value in each]
        else:
            continue
        for target, value in pairs:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)
    return found


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=False))
    return [(target, value)]


def _first_words(
    node: ast.expr, bound: dict[str, list[ast.expr]], seen: frozenset[str]
) -> set[str]:
    """Return the first words that a command may have."""
    match node:
        case ast.Constant(value=str(word)):
            return {word}
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
            return _first_words(first, bound, seen)
        case ast.BinOp(left=ast.Name(id="tmp_path")):
            return set()  # the test has made it
        case ast.BinOp(op=ast.Div(), right=inner):
            return _first_words(inner, bound, seen)
        case ast.Starred(value=inner) | ast.BinOp(left=inner):
            return _first_words(inner, bound, seen)
        case ast.Call(func=ast.Name(id="str" | "list"), args=[inner]):
            return _first_words(inner, bound, seen)
        case ast.IfExp(body=one, orelse=other):
            return _first_words(one, bound, seen) | _first_words(other, bound, seen)
        case ast.Name(id=name) if name not in seen:
            values = bound.get(name, [])
            return {w for v in values for w in _first_words(v, bound, seen | {name})}
        case _:
            return set()
