"""Where the text of a key can still be found: in every form in which the product stores bytes."""

from __future__ import annotations

import base64
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.objects import kind_of
from firnline.paths import TablePaths


def forms_of(key: str, data: bytes, needle: str) -> set[str]:
    """Return in which forms an object holds a text: by its key, raw, packed, as rows of Parquet."""
    found = {"key"} if needle in key else set()
    found |= {form for form, text in _texts(data) if needle.encode() in text}
    return found


def _texts(data: bytes) -> Iterator[tuple[str, bytes]]:
    yield "raw", data
    if data[:4] == b"PAR1" and data[-4:] == b"PAR1":
        yield from _parquet(data)
    for form, unpack in (("gzip", gzip.decompress), ("zlib", zlib.decompress)):
        try:
            yield form, unpack(data)
        except (OSError, EOFError, zlib.error):
            continue
    try:
        yield "base64", base64.b64decode(data, validate=True)
    except ValueError:
        return


def _parquet(data: bytes) -> Iterator[tuple[str, bytes]]:
    with pq.ParquetFile(io.BytesIO(data)) as file:
        yield "footer", repr(file.metadata.metadata).encode()
        yield "rows", _rows(file.read())


def _rows(table: pa.Table) -> bytes:
    return repr(table.to_pylist()).encode()


def encoded(needle: str) -> list[bytes]:
    """Return a text as it stands within a longer text in base 64, wherever it begins there."""
    found = []
    for shift in range(3):
        whole = base64.b64encode(b"\0" * shift + needle.encode())
        found.append(whole[4 if shift else 0 : -4])
    return found


def traces(objects: Mapping[str, tuple[bytes, int]], needle: str) -> dict[str, set[str]]:
    """Return object -> the forms in which it holds a text."""
    inside = encoded(needle)
    found = {}
    for key, (data, _) in objects.items():
        forms = forms_of(key, data, needle)
        if any(text in data for text in inside):
            forms.add("base64 within")
        if forms:
            found[key] = forms
    return found


def by_kind(paths: TablePaths, keys: Iterable[str]) -> dict[str, int]:
    """Count objects by their kinds; one of no kind counts under its key."""
    kinds = ((key, kind_of(paths, key)) for key in keys)
    return dict(Counter(key if kind is None else kind.name for key, kind in kinds))


def in_folder(folder: Path, needle: str) -> list[str]:
    """Return the files below a folder that hold a text, in any form."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [str(path) for path in files if forms_of(str(path), path.read_bytes(), needle)]
