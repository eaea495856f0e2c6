"""Read an object of a ``file://`` store as the file that it is.

obstore hands each request to a thread of its own, which for a log file of some hundred bytes takes
several times as long as to read it. obstore still decides what is a key, and what a failure is: an
unusual key and a file that cannot be read are left to it.
"""

from __future__ import annotations

import os
import re

_SEGMENT = r"[A-Za-z0-9_=-][A-Za-z0-9_=. -]*"
_USUAL = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*", re.ASCII)
"""Keys that are their files' paths: obstore accepts them, and they lead out of no folder."""


def is_usual(key: str) -> bool:
    """Return True for a key that obstore takes as the path of its file, too."""
    return _USUAL.fullmatch(key) is not None


def read_file(path: str, start: int = 0, length: int | None = None) -> bytes | None:
    """Return the bytes of a file.

    Args:
        path: of the file.
        start: of a range.
        length: of the range; None: to the end. A range may go beyond the end.

    Returns:
        The bytes; None if the file cannot be read, or does not have the bytes that it should.
    """
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path each costs more
            size = os.fstat(file.fileno()).st_size
            count = max(0, size - start) if length is None else max(0, min(length, size - start))
            if start:
                file.seek(start)
            # One call gives less than 2 GiB, and may give less than that.
            data = file.read(count)
    except OSError:
        return None
    return data if data is not None and len(data) == count else None
