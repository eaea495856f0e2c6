"""Which input a failure of DuckDB is about."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from firnline.kernel.duckdb import quote_text
from firnline.kernel.faults import unreadable
from firnline.kernel.staging import InputError

_ROWS = 10_000


def culprit(
    keys: Mapping[str, str], error: duckdb.Error, connection: duckdb.DuckDBPyConnection
) -> InputError | duckdb.Error:
    """The input at fault, or the error itself when none is.

    DuckDB names the file in every error about one, but for damage that its Parquet reader did not
    expect, which is a bare ``Error``: then each file is read by itself.

    Args:
        keys: staged file -> key.
        error: what a statement over these files ended with.
        connection: where it ran; nothing runs there now.
    """
    found = next((path for path in keys if path in str(error)), None)
    if found is None and type(error) is duckdb.Error:
        for path in keys:
            alone = _read(connection, path)
            if alone is not None:
                found, error = path, alone
                break
        else:
            found = next(iter(keys)) if len(keys) == 1 else None
    if found is None:
        return error
    return InputError(keys[found], unreadable(keys[found], _without(found, keys[found], error)))


def _read(connection: duckdb.DuckDBPyConnection, path: str) -> duckdb.Error | None:
    """What reading all of a file ends with."""
    try:
        rows = connection.execute(f"FROM read_parquet({quote_text(path)})")
        while rows.fetchmany(_ROWS):
            pass
    except duckdb.Error as error:
        return error
    return None


def _without(path: str, key: str, error: duckdb.Error) -> Exception:
    """The same text without the scratch path, which would tell the user nothing."""
    text = str(error).replace(f'Failed to read file "{path}": ', "").replace(path, key)
    return RuntimeError(text)
