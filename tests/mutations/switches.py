"""The conditions of a source, and the same source with one of them switched off."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

_STRICT: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_Path = tuple[tuple[str, int | None], ...]
"""From the module to a node: names of fields, and places in those that are lists."""


@dataclass(frozen=True)
class Switch:
    """One condition that is switched off."""

    owner: str
    """Qualified name of the outermost function around it."""
    lines: range
    """Of the condition."""
    around: range
    """Lines of that function."""
    text: str
    """``what it was -> what it is``."""
    path: _Path
    new: ast.expr

    def compiled(self, source: str, filename: str) -> CodeType:
        """Return the code of the module with the condition switched off."""
        tree = ast.parse(source)
        node: Any = tree
        for name, place in self.path[:-1]:
            node = _child(node, name, place)
        name, place = self.path[-1]
        if place is None:
            setattr(node, name, self.new)
        else:
            getattr(node, name)[place] = self.new
        return compile(ast.fix_missing_locations(tree), filename, "exec", dont_inherit=True)


def switches_of(source: str) -> Iterator[Switch]:
    """Return every way to switch one condition of a module off.

    A condition becomes true and false, of ``and`` and ``or`` one operand is left out, and a
    comparison of size takes or leaves what is equal. What stands outside of functions runs once,
    when it is imported, and is left alone.
    """
    found: set[tuple[_Path, str]] = set()
    tree = ast.parse(source)
    for owner, path, node, values in _conditions(tree, (), "", in_function=False):
        for new in _switched(node, values):
            text = f"{ast.unparse(node)} -> {ast.unparse(new)}"
            if (path, text) not in found:
                found.add((path, text))
                around = _lines(_function_around(tree, path))
                yield Switch(owner, _lines(node), around, text, path, ast.copy_location(new, node))


def _conditions(
    node: ast.AST, path: _Path, owner: str, *, in_function: bool
) -> Iterator[tuple[str, _Path, ast.expr, tuple[bool, ...]]]:
    """Each (owner, path, expression, what it may become)."""
    for name, place, child in () if isinstance(node, ast.Assert) else _children(node):
        below = (*path, (name, place))
        inside, owned = in_function, owner
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not inside:
            owned = f"{owner}.{child.name}" if owner else child.name
            inside = not isinstance(child, ast.ClassDef)
        is_test = name == "test" or (name == "ifs" and isinstance(node, ast.comprehension))
        condition = is_test or isinstance(child, (ast.BoolOp, ast.Compare))
        if inside and condition and isinstance(child, ast.expr):
            yield owned, below, child, _values(node, child, is_test=is_test)
        yield from _conditions(child, below, owned, in_function=inside)


def _lines(node: Any) -> range:  # of anything that stands somewhere
    return range(node.lineno, node.end_lineno + 1)


def _function_around(tree: ast.AST, path: _Path) -> ast.AST:
    node: Any = tree
    for name, place in path:
        node = _child(node, name, place)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            break
    return cast("ast.AST", node)


def _values(above: ast.AST, node: ast.expr, *, is_test: bool) -> tuple[bool, ...]:
    """What a condition may become: without what leaving it out, or the whole, comes to as well."""
    if isinstance(node, ast.Constant):  # while True
        return ()
    if is_test:
        return (True, False)
    if isinstance(node, ast.BoolOp):
        return ()
    if isinstance(above, ast.BoolOp):
        return (isinstance(above.op, ast.Or),)
    return (True, False)


def _switched(node: ast.expr, values: tuple[bool, ...]) -> Iterator[ast.expr]:
    if isinstance(node, ast.BoolOp):
        for place in range(len(node.values)):
            rest = [value for number, value in enumerate(node.values) if number != place]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            if type(op) in _STRICT:
                ops = [*node.ops[:place], _STRICT[type(op)](), *node.ops[place + 1 :]]
                yield ast.Compare(node.left, ops, node.comparators)
    for value in values:
        yield ast.Constant(value=value)


def _children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield name, None, value
        elif isinstance(value, list):
            for place, each in enumerate(value):
                if isinstance(each, ast.AST):
                    yield name, place, each


def _child(node: Any, name: str, place: int | None) -> Any:
    child = getattr(node, name)
    return child if place is None else child[place]


def exchange(module: ModuleType, owner: str, code: CodeType) -> None:
    """Give a function of a module that is imported already the code that it has in another one.

    Whoever holds the function has the new code then, too.

    Raises LookupError when there is no such function.
    """
    _function(module, owner).__code__ = _code(code, owner)


def _code(code: CodeType, owner: str) -> CodeType:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if const.co_qualname == owner:
                return const
            if owner.startswith(f"{const.co_qualname}."):
                return _code(const, owner)
    raise LookupError(owner)


def _function(module: ModuleType, owner: str) -> FunctionType:
    found: Any = module
    for name in owner.split("."):
        found = vars(found)[name]
    for attribute in ("fget", "func", "__func__", "__wrapped__"):
        found = getattr(found, attribute, None) or found
    assert isinstance(found, FunctionType), owner
    return found
