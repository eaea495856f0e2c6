"""Files of others in a form that readers understand differently: found, and written anew by Arrow.

A part that this package has written has one form for all readers (``parquet.form``). One of another
writer may be a file that DuckDB does not read, or reads as other values than Arrow does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from firnline.errors import DAMAGED_PART, FirnlineError, PartSchemaError, PartUnreadableError
from firnline.kernel.faults import scratch_full
from firnline.kernel.staging import InputError
from firnline.kernel.task import KernelInput
from firnline.parquet.words import WRITTEN_OTHERWISE, odd_in_words

_ROW_GROUP_ROWS = 65_536
_STEPS: Mapping[type[FirnlineError], str] = {
    PartUnreadableError: DAMAGED_PART,
    PartSchemaError: "give the column a type that holds its values",
}


def odd_columns_of(path: Path) -> Mapping[str, str]:
    """Return the columns of a local file in another form than that of parts -> what differs.

    None of a part of this package, nor of a file whose footer does not say its columns.
    """
    # Both need pyarrow, whose threads the process of a query must not have.
    from firnline.parquet.footers import FooterTask, FooterWanted, parse_elsewhere
    from firnline.parquet.io import read_local_tail

    try:
        tail = read_local_tail(path)
    except PartUnreadableError:
        return {}  # whoever reads it says so
    task = FooterTask(str(path), path.stat().st_size)
    facts = parse_elsewhere(task, FooterWanted(form=True), tail)
    return {} if facts.part is not None else facts.odd


def refuse_odd(keys: Mapping[str, str]) -> None:
    """Raise for the first input that readers may understand differently.

    Args:
        keys: key by staged file.

    Raises:
        InputError: with a PartSchemaError, which names its columns.
    """
    for path, key in keys.items():
        odd = odd_columns_of(Path(path))
        if odd:
            error = PartSchemaError(
                f"part {key} has {odd_in_words(odd)}: two readers have read different values in it",
                next_step=WRITTEN_OTHERWISE,
            )
            raise InputError(key, error)


def refuse_unsafe(key: str, path: Path) -> None:
    """Refuse a staged input whose columns cannot be looked at, such as one with encrypted columns.

    Raises InputError: with a PartUnreadableError.
    """
    from firnline.parquet.footers import refuse_unsafe_chunks

    try:
        refuse_unsafe_chunks(path)  # one without a footer, too
    except PartUnreadableError as error:
        raise InputError(key, _about_part(error, key, path)) from error


def write_anew(source: KernelInput, path: Path) -> None:
    """Write a staged input anew, with its values as Arrow reads them; one without casts stays.

    Args:
        source: its ``fitting`` names the columns that are written in another form, and their types.
        path: the staged file.

    Raises:
        InputError: it cannot be read, or holds a value that the type does not hold.
        ScratchFullError: the disk is full.
    """
    if not source.fitting.casts:
        return
    try:
        _written_anew(source, path)
    except FirnlineError as error:
        raise InputError(source.key, _about_part(error, source.key, path)) from error
    except OSError as error:
        raise scratch_full(path.parent.parent, error) or error from error


def _about_part(error: FirnlineError, key: str, path: Path) -> FirnlineError:
    """Return the same error about a part, whose staged copy it names as somebody's file."""
    message = error.message.replace(str(path), f"part {key}")
    if isinstance(error, PartSchemaError):
        message = f"part {message}"
    return type(error)(message, next_step=_STEPS.get(type(error), error.next_step))


def _written_anew(source: KernelInput, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from firnline.parquet.arrow_versions import refuse_changed
    from firnline.parquet.footers import refuse_unsafe_chunks
    from firnline.rows.foreign import fitted
    from firnline.rows.source import read_files

    refuse_unsafe_chunks(path)
    new = path.with_suffix(".anew")
    writer: pq.ParquetWriter | None = None
    try:
        for batch in read_files([path]):
            rows = fitted(pa.Table.from_batches([batch]), source.fitting, source.key)
            rows = rows.replace_schema_metadata(None)
            if writer is None:
                refuse_changed(rows.schema)
                writer = pq.ParquetWriter(
                    new, rows.schema, compression="zstd", compression_level=1, store_schema=False
                )
            writer.write_table(rows, row_group_size=_ROW_GROUP_ROWS)
    finally:
        if writer is not None:
            writer.close()
    if writer is not None:
        new.replace(path)
