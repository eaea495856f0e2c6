"""Conditions of a table in Spark SQL: the same trees and the same rules as in DuckDB's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

from firnline.errors import UsageError
from firnline.predicate.tree import Dialect
from firnline.spark.format.types import spark_type
from firnline.types.values import Scalar, bound_key

_PLAIN = re.compile(r"[A-Za-z0-9_ .:,;/@+-]*")
"""Texts that mean the same whether the session's parser takes a backslash as an escape or not."""
NANOSECONDS = ("TIMESTAMP_NS", "TIMESTAMPTZ_NS")
"""Types whose values are compared as whole numbers; ``format.stored`` reads them so."""
_DIGITS = 38
"""Digits of Spark's widest decimal."""


def quote_column(name: str) -> str:
    """Return a name in backticks, safe anywhere in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def opaque(value: str) -> str:
    """Return an expression for the same number that Spark does not pass to the Parquet reader.

    Many writers leave NaN out of the bounds of a row group, and in Spark, too, NaN is greater than
    every number: the reader would skip a row group with it. Measured with Spark 4.3.0.
    """
    return f"nanvl({value}, {value})"


def _literal(kind: str, value: Scalar) -> str:
    wanted, moment = spark_type(kind), bound_key(kind)
    if kind in NANOSECONDS and moment is not None:
        return f"{moment(value)}L"
    if kind == "UUID":
        return f"X'{UUID(str(value)).hex}'"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if wanted.typeName() == "decimal" and sum(map(str.isdigit, text)) > _DIGITS:
        raise UsageError(
            f"a condition compares a column of type {kind} with {text}, which no decimal of Spark "
            "can hold",
            next_step="read with firnline.scan",
        )
    quoted = f"'{text}'" if _PLAIN.fullmatch(text) else f"X'{text.encode().hex()}'"
    return f"CAST({quoted} AS {wanted.simpleString()})"


def _is_null(name: str, _kind: str) -> str:
    return f"({name} IS NULL)"


def _among(name: str, literals: Sequence[str]) -> str:
    # Spark looks literals up in a hash table by itself.
    return f"({name} IN ({', '.join(literals)}))"


SPARK = Dialect(quote_column, _literal, opaque, _is_null, _among)
