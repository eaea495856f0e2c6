"""Names in docstrings of the code that no longer exist.

    python -m tools.docnames

What stands between double backticks and looks like a name of Python has to be one: ``function``,
``_name`` of the same file, ``Class.method``, ``module.name`` with as much of its path as a reader
needs, or a setting. Words of strings in the code are names, too: columns, keys of JSON, options of
programs. An attribute of a variable is a name if the code has such an attribute anywhere.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
import re
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.bootstrap import REPO

CHECKED = ("include/firnline", "simulation", "tools", "demo")
"""Folders whose docstrings are checked."""
KNOWN = ("include", "simulation", "tools", "demo", "dags", "plugins", "spark_jobs")
"""Folders whose names docstrings may say."""
_QUOTED = re.compile(r"``([^`]+)``")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")
_WORD = re.compile(r"\w+")
_OUTSIDE = re.compile(
    r"(?:AIRFLOW|AWS|AZURE|GOOGLE|FIRNLINE|CLOCK)_\w+|__\w*|[a-z]\d?|x_\w+|\w+__\w*|_|"
    r".+\.(?:py|json|toml|yaml|yml|md|parquet)|spark\.[\w.]+"
)
"""Environment variables, constants of the kernel, methods that Python calls, columns of examples,
ids of DAGs, names of files, settings of Spark."""
_OF_OTHERS = frozenset(
    {
        "CompressionCodec.ZSTD",
        "_SUCCESS",
        "bytesPerTask",
        "duckdb.Error",
        "duckdb_keywords",
        "ru_maxrss",
        "run_as_user",
        "stats.gauge",
        "task_failure",
    }
)
"""Names of libraries and programs that the code does not say. An option of a reader in Spark, where
case does not matter, too."""


@dataclass(frozen=True, slots=True)
class Stale:
    """A name that is nowhere."""

    path: str
    line: int
    """Of the beginning of its docstring."""
    name: str

    def __str__(self) -> str:
        """Return the line to print."""
        return f"{self.path}:{self.line}: nothing is called ``{self.name}``"


@dataclass(slots=True)
class Names:
    """What code defines and says."""

    words: set[str] = field(default_factory=lambda: {*dir(builtins), *dir(os), *dir(resource)})
    """Identifiers, and words of strings that are no docstrings."""
    said: set[str] = field(default_factory=set)
    """The latter alone."""
    modules: set[str] = field(default_factory=set)
    """Last segments of modules and packages."""
    settings: set[str] = field(default_factory=set)
    """What classes below ``firnline.settings`` hold."""
    full: set[str] = field(default_factory=set)
    """Modules, what stands in them, and in their classes: every end of the name that has a dot."""
    classes: dict[str, set[str]] = field(default_factory=dict)
    """Class -> its members, those of all classes of one name together."""
    bases: dict[str, set[str]] = field(default_factory=dict)

    def add(self, module: str, tree: ast.Module) -> None:
        """Take in a module, whose full name has dots."""
        identifiers, said = words_of(tree)
        self.words |= identifiers | said
        self.said |= said
        self.modules.update(module.split("."))
        self._name(module.split("."))
        for node in _nodes(tree):
            if isinstance(node, ast.ClassDef):
                self.classes.setdefault(node.name, set()).update(defined(node.body))
                self.classes[node.name].update(_of_self(node))
                self.bases.setdefault(node.name, set()).update(map(_base, node.bases))
                if module.startswith("firnline.settings."):
                    self.settings |= defined(node.body)
        for name in defined(tree.body):
            self._name([*module.split("."), name])

    def _name(self, segments: Sequence[str]) -> None:
        self.words.update(segments)
        self.full.update(".".join(segments[start:]) for start in range(len(segments) - 1))

    def has(self, owner: str, name: str) -> bool:
        """Return True for a member of a class, or if a base of it is not of this code."""
        if owner not in self.classes:
            return True
        bases = self.bases[owner] - {owner, "Generic", "Protocol", "object", "Enum"}
        return name in self.classes[owner] or any(self.has(base, name) for base in bases)


def _base(node: ast.expr) -> str:
    return ast.unparse(node).partition("[")[0].rpartition(".")[2]


@functools.cache
def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


@functools.cache
def docstrings(tree: ast.Module) -> tuple[ast.Constant, ...]:
    """Return strings that are a statement: of modules, classes, functions and attributes."""
    said = (node.value for node in _nodes(tree) if isinstance(node, ast.Expr))
    return tuple(
        each for each in said if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


@functools.cache
def words_of(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the identifiers of a module, and the words of its strings that are no docstrings."""
    docs = {id(each) for each in docstrings(tree)}
    identifiers: set[str] = set()
    said: set[str] = set()
    for node in _nodes(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in docs:
                said.update(_WORD.findall(node.value))
            continue
        for each in ("id", "attr", "arg", "name", "asname", "module"):
            value = getattr(node, each, None)
            identifiers.update(value.split(".") if isinstance(value, str) else ())
    return identifiers, said


def defined(body: Sequence[ast.stmt]) -> set[str]:
    """Names that statements give to their module or class, imported ones, too."""
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
            continue
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                found.add(each.id)
            elif isinstance(each, ast.alias):
                found.add((each.asname or each.name).partition(".")[0])
            elif isinstance(each, ast.ClassDef | ast.FunctionDef):
                found.add(each.name)
    return found


def _of_self(node: ast.ClassDef) -> set[str]:
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
    }


def stale_in(path: str, tree: ast.Module, names: Names) -> Iterator[Stale]:
    """Names of the docstrings of a file that are nowhere; ``path`` is only reported."""
    own, _ = words_of(tree)
    variables = {node.id for node in _nodes(tree) if isinstance(node, ast.Name)}
    variables |= {node.arg for node in _nodes(tree) if isinstance(node, ast.arg)}
    for doc in docstrings(tree):
        for quoted in _QUOTED.findall(str(doc.value)):
            name = quoted.removesuffix("()")
            if not _NAME.fullmatch(quoted) or _OUTSIDE.fullmatch(name) or name in _OF_OTHERS:
                continue
            if not (
                _is_path(name, variables, names) if "." in name else _is_word(name, own, names)
            ):
                yield Stale(path, doc.lineno, quoted)


def _is_word(name: str, own: set[str], names: Names) -> bool:
    return name in (own | names.said if name.startswith("_") else names.words)


def _is_path(name: str, variables: set[str], names: Names) -> bool:
    """Return True for a module or what is in it, a member of a class, an attribute, a setting."""
    *path, above, last = name.split(".")
    if name in names.full:
        return True
    if not names.words.issuperset([*path, above]):
        return False
    if above in names.classes:
        return names.has(above, last)
    if last not in names.words:
        return False
    of_variable = not path and (above in variables or {above, last} <= names.settings)
    return of_variable or above not in names.modules


def read(root: Path = REPO, folders: Sequence[str] = KNOWN) -> tuple[dict[str, ast.Module], Names]:
    """Return the modules below folders, by path below the root, and their names."""
    trees: dict[str, ast.Module] = {}
    names = Names()
    for path in (each for folder in folders for each in sorted((root / folder).rglob("*.py"))):
        below = path.relative_to(root)
        tree = trees[below.as_posix()] = ast.parse(path.read_text(encoding="utf-8"))
        parts = below.with_suffix("").parts
        parts = parts[1:] if parts[0] == "include" else parts
        names.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts), tree)
    return trees, names


def stale(root: Path = REPO) -> list[Stale]:
    """Return every stale name of the repository."""
    trees, names = read(root)
    return [
        found
        for path, tree in trees.items()
        if path.startswith(CHECKED)
        for found in stale_in(path, tree, names)
    ]


def main() -> int:
    """Print the stale names; 1 if there is one."""
    found = stale()
    for each in found:
        print(each)
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
