"""Find white space and invisible characters at an end of a key.

Such a key matches no row without them, and the person would stay. Invisible are format characters
(category Cf of Unicode), as a zero-width space.

They are not taken away either: the rows of one key are not those of another. In CSV and on a
command line it is nearly always a mistake of whoever has written it, so that is refused. Parquet
holds values as a program had them, as those of columns of a fixed width: they are keys, and are
told.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from unicodedata import category

import pyarrow as pa
import pyarrow.compute as pc

from firnline.errors import UsageError
from firnline.types.sql import fold_name

_UNSEEN = r"\A\p{Cf}|\p{Cf}\z"


def without_spaces(
    batches: Iterable[pa.RecordBatch], shown: str, columns: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV file. Raises UsageError for a key that is ``spaced``.

    Args:
        batches: its rows.
        shown: name of the file.
        columns: that identify a person; others may hold anything.
    """
    wanted, before = {fold_name(name) for name in columns}, 0
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for row in spaced(column)[:1] if fold_name(name) in wanted else ():
                what = _unseen(column[row].as_py())
                raise _refused(
                    f"key {before + row + 1} of {shown} has {what} at an end of its {name}"
                )
        before += batch.num_rows
        yield batch


def spaced(column: pa.Array) -> list[int]:
    """Return the places of the texts of a column that begin or end with what nobody sees."""
    if pa.types.is_dictionary(column.type):
        places = set(spaced(column.dictionary))
        marked = pa.array([at in places for at in range(len(column.dictionary))], pa.bool_())
        found = pc.take(marked, column.indices)
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        white = pc.not_equal(pc.utf8_trim_whitespace(column), column)
        found = pc.or_(white, pc.match_substring_regex(column, _UNSEEN))
    else:
        return []
    where: list[int] = pc.indices_nonzero(pc.fill_null(found, False)).to_pylist()
    return where


def refuse_typed(keys: Sequence[Sequence[object]]) -> None:
    """Raise UsageError for a text among the keys of a command line that is ``spaced``, or is none.

    What the shell has given as other bytes than UTF-8, Python holds as text that nothing can write.
    """
    typed = [(n, v) for n, key in enumerate(keys, 1) for v in key if isinstance(v, str)]
    for number, text in typed:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"key {number} is no text in UTF-8, and no row can have it",
                next_step="write it as the table has it, or in a file (--keys)",
            ) from None
    for at in spaced(pa.array([text for _, text in typed], pa.string()))[:1]:
        number, text = typed[at]
        raise _refused(f"key {number} has {_unseen(text)} at an end")


def _refused(fault: str) -> UsageError:
    return UsageError(
        f"{fault}, and would match no row without it",
        next_step="take it away; if the rows have it, too, write the keys as Parquet, whose values "
        "are taken as they are",
    )


def _unseen(text: str) -> str:
    """Return what a text that is ``spaced`` has at an end; of the text itself it tells nothing."""
    unseen = next((each for each in (text[0], text[-1]) if category(each) == "Cf"), None)
    return "white space" if unseen is None else f"the invisible character U+{ord(unseen):04X}"
