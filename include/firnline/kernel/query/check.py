# ruff: noqa: S608 -- a query runs only after this module has found one SELECT over known names
"""Check a user's query over the rows of a group: its statement and its result columns.

It can read the rows and nothing else, by two protections: DuckDB's own parse tree of the text may
hold one SELECT over the rows and its own common table expressions, no table function, and no
function that reveals the process or its settings; and its database has no access to files outside
the task's folder, to the network or to extensions, with its configuration locked (``open_duckdb``).
It runs in a process that can be killed (``kernel.query.process``).
"""

from __future__ import annotations

import json
from typing import Any

import duckdb

from firnline.errors import UsageError
from firnline.kernel.faults import first_line
from firnline.types.schema import normalise
from firnline.types.sql import fold_name, quote_name

_RULE = (
    "write one SELECT in DuckDB's dialect over {source} alone; files, other tables, table "
    "functions, settings and several statements are refused"
)
_QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_TABLES = {"BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "EXPRESSION_LIST", "PIVOT"}
_TABLE_FUNCTIONS = {"unnest", "range", "generate_series"}
"""Table functions that make rows only from their arguments."""
_MAKES_ROWS = {"unnest", "unlist", "generate_subscripts"}
_OTHER_ROWS = {"SUBQUERY": "it has a subquery", "WINDOW": "it has a window function"}
_REFUSED_FUNCTIONS = {
    "current_setting",
    "getvariable",
    "getenv",
    "current_query",
    "nextval",
    "currval",
    "setval",
    "write_log",
    "json_serialize_plan",
    "json_execute_serialized_sql",
}
_NO_SELECT = ("Only SELECT statements can be serialized to json",)
"""DuckDB's messages for any other statement."""


def open_source(connection: duckdb.DuckDBPyConnection, source: str, rows: str) -> None:
    """Create the view with the name of the rows."""
    connection.execute(f"CREATE TEMP VIEW {quote_name(source)} AS {rows}")


def check_opened(connection: duckdb.DuckDBPyConnection, query: str, source: str) -> None:
    """Check a query in a database that contains ``source``. Raises UsageError."""
    refuse_reach(connection, query, source)
    of_source = connection.execute(f"DESCRIBE SELECT * FROM {quote_name(source)}").fetchall()
    try:
        of_query = connection.execute(f"DESCRIBE {in_brackets(query)}").fetchall()
    except duckdb.InterruptException:
        raise  # it took too long: handled by the caller
    except duckdb.Error as error:
        raise failed(query, error) from error
    _check_columns([(row[0], row[1]) for row in of_query], [(row[0], row[1]) for row in of_source])


def in_brackets(query: str) -> str:
    """Return a checked query as a subquery. The line break ends a comment."""
    return f"({query.rstrip().removesuffix(';')}\n)"


def failed(query: str, error: duckdb.Error, *, by_row: bool = False) -> UsageError:
    """Return the error for a query that fails in DuckDB.

    Args:
        query: the text.
        error: what DuckDB says.
        by_row: a user has given expressions for new values only, and the rest is ours.
    """
    if by_row:
        return UsageError(
            f"a new value cannot be computed: {first_line(error)}",
            next_step="correct its expression, or name only rows for which it has a value",
        )
    return UsageError(
        f"the query {_short(query)} fails: {first_line(error)}", next_step="correct the query"
    )


def refuse_reach(connection: duckdb.DuckDBPyConnection, query: str, source: str) -> None:
    """Raise UsageError unless the text is one SELECT over ``source``."""
    if "\0" in query:
        # Some parsers end a statement there.
        raise _refused(query, source, "it contains a NUL character")
    try:
        problem = _problem(connection, query, source)
    except RecursionError:
        problem = "it is nested too deeply"
    if problem is not None:
        raise _refused(query, source, problem)


def refuse_other_rows(connection: duckdb.DuckDBPyConnection, expression: str) -> None:
    """Raise UsageError unless the text is one expression that looks at no other row."""
    problem = _not_one(connection, expression)
    if problem is not None:
        raise UsageError(
            f"the expression {_short(expression)} is refused: {problem}",
            next_step="write one expression over the columns of a row, in DuckDB's dialect",
        )


def _not_one(connection: duckdb.DuckDBPyConnection, expression: str) -> str | None:
    """Return why a text is not one expression over one row; None if it is."""
    nodes: list[Any] = []
    # In brackets, several would be one row; without, a name could follow.
    for text in (expression.rstrip().removesuffix(";"), in_brackets(expression)):
        parsed = _parsed(connection, f"SELECT {text}\n")
        if isinstance(parsed, str):
            return parsed
        nodes = [statement["node"] for statement in parsed]
        if len(nodes) != 1 or not _is_one_value(nodes[0]):
            return "it is more than one expression"
    return _other_rows(nodes, _aggregates(connection))


def _aggregates(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Return the functions that are aggregates, and nothing else."""
    listed = connection.execute(
        "SELECT function_name FROM duckdb_functions() GROUP BY ALL"
        " HAVING bool_and(function_type = 'aggregate')"
    ).fetchall()
    return frozenset(str(name).lower() for (name,) in listed)


def _is_one_value(node: dict[str, Any]) -> bool:
    """Return True for the parse tree of a SELECT of one value, and nothing behind it."""
    more = ("where_clause", "group_expressions", "having", "qualify", "modifiers", "sample")
    plain = node.get("type") == "SELECT_NODE" and not any(node.get(name) for name in more)
    return plain and len(node["select_list"]) == 1 and node["from_table"]["type"] == "EMPTY"


def _other_rows(node: Any, aggregates: frozenset[str]) -> str | None:  # noqa: ANN401 -- JSON
    """Return what looks at other rows in a parse tree; None if nothing does."""
    if isinstance(node, list):
        found = (_other_rows(item, aggregates) for item in node)
        return next((problem for problem in found if problem), None)
    if not isinstance(node, dict):
        return None
    kind, name = node.get("class"), str(node.get("function_name", "")).lower()
    if kind in _OTHER_ROWS:
        return _OTHER_ROWS[kind]
    if kind == "FUNCTION" and name in _MAKES_ROWS:
        return f"it calls {name}, which makes several rows of one"
    if kind == "FUNCTION" and name in aggregates:
        return f"it calls {name}, which is an aggregate over several rows"
    return _other_rows(list(node.values()), aggregates)


def refuse_no_text(query: str, source: str) -> None:
    """Raise UsageError for text that cannot be sent to the query's process."""
    try:
        query.encode()
    except UnicodeEncodeError:
        raise _refused(ascii(query), source, "it is not valid text") from None


def _problem(connection: duckdb.DuckDBPyConnection, query: str, source: str) -> str | None:
    """Return the reason to refuse a text, by DuckDB's parse tree of it; None if it is accepted."""
    parsed = _parsed(connection, query)
    if isinstance(parsed, str):
        return parsed
    if len(parsed) != 1:
        return f"it is {len(parsed)} statements"
    return _Reach(frozenset({fold_name(source)})).problem(parsed[0])


def _parsed(connection: duckdb.DuckDBPyConnection, text: str) -> list[dict[str, Any]] | str:
    """Return the parse trees of the statements of a text, or why it has none."""
    (answer,) = connection.execute(
        "SELECT json_serialize_sql(CAST(? AS VARCHAR))", [text]
    ).fetchall()[0]
    parsed = json.loads(answer)
    if parsed["error"]:
        message = str(parsed["error_message"]).rstrip("!.")
        if "memory" in str(parsed["error_type"]).lower():
            raise duckdb.OutOfMemoryException(message)  # no fault of the text: of the bounds
        return "it is not a SELECT" if message in _NO_SELECT else message
    statements: list[dict[str, Any]] = parsed["statements"]
    return statements


class _Reach:
    """Names that a parse tree may refer to, with the scopes of its common table expressions.

    A name is accepted only where its expression is in scope: elsewhere DuckDB would look for a
    table, or a file, of that name.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def problem(self, node: Any) -> str | None:  # noqa: ANN401 -- JSON
        """Return the reason to refuse the tree; None if it is accepted."""
        if isinstance(node, list):
            return next((problem for item in node if (problem := self.problem(item))), None)
        if not isinstance(node, dict):
            return None
        scope = self
        if "cte_map" in node:
            if node.get("type") not in _QUERY_NODES:
                return "it changes data"
            problem, scope = self._common_tables(node)
            if problem:
                return problem
            node = {name: value for name, value in node.items() if name != "cte_map"}
        elif "sample" in node:
            problem = self._table(node)
            if problem:
                return problem
        elif node.get("class") == "FUNCTION":
            name = str(node.get("function_name", "")).lower()
            if name in _REFUSED_FUNCTIONS:
                return f"it calls {name}"
        return scope.problem(list(node.values()))

    def _common_tables(self, node: dict[str, Any]) -> tuple[str | None, _Reach]:
        names = self._names
        if node["type"] == "RECURSIVE_CTE_NODE":
            names |= {fold_name(str(node.get("cte_name", "")))}
        for entry in node["cte_map"]["map"]:
            problem = _Reach(names).problem(entry["value"])
            if problem:
                return problem, self
            names |= {fold_name(str(entry["key"]))}
        return None, _Reach(names)

    def _table(self, node: dict[str, Any]) -> str | None:
        kind = str(node.get("type"))
        if kind == "TABLE_FUNCTION":
            name = str(node["function"].get("function_name", "")).lower()
            return None if name in _TABLE_FUNCTIONS else f"it calls the table function {name}"
        if kind not in _TABLES:
            return f"it contains a {kind.lower().replace('_', ' ')}"
        if kind == "BASE_TABLE":
            path = node["qualified_name"]["path"]
            if len(path) != 1 or fold_name(str(path[0])) not in self._names:
                return f"it reads {'.'.join(map(str, path))!r}"
        return None


def _check_columns(of_query: list[tuple[str, str]], of_source: list[tuple[str, str]]) -> None:
    kinds = {fold_name(name): (name, kind) for name, kind in of_source}
    problem: str | None = None
    seen: set[str] = set()
    for name, kind in of_query:
        folded = fold_name(name)
        if folded not in kinds:
            problem = f"makes a column {name!r} ({kind}) that the table does not have"
        elif folded in seen:
            problem = f"makes column {name!r} twice"
        elif normalise(kind) != normalise(kinds[folded][1]):
            problem = f"makes column {name!r} as {kind}, the table has it as {kinds[folded][1]}"
        if problem:
            break
        seen.add(folded)
    missing = [name for folded, (name, _) in kinds.items() if folded not in seen]
    if problem is None and missing:
        problem = f"leaves out column {missing[0]!r}"
    if problem:
        raise UsageError(
            f"the query {problem}",
            next_step="return all columns of the table and no others, and cast them to their "
            "types, as in sum(n)::BIGINT AS n",
        )


def _refused(query: str, source: str, reason: str) -> UsageError:
    return UsageError(
        f"the query {_short(query)} is refused: {reason}", next_step=_RULE.format(source=source)
    )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return f"`{text}`" if len(text) <= 80 else f"`{text[:77]}…`"
