"""What a person means who writes a URL almost right."""

from __future__ import annotations

import re
from pathlib import Path

_ALMOST_URL = re.compile(r"(?P<scheme>s3[an]?|gs|az|file):/+(?P<rest>[^/].*)", re.IGNORECASE)


def meant_url(text: str) -> str | None:
    """Return the URL that a text seems to mean: of a folder, or of a scheme in other letters.

    None if it is no path either, or as right as it can be seen to be.
    """
    found = _ALMOST_URL.fullmatch(text)
    if found is None:
        is_path = "://" not in text and ("/" in text or text.startswith("."))
        return f"file://{Path(text).absolute()}" if is_path else None
    scheme = found["scheme"].lower()
    slashes = ":///" if scheme == "file" else "://"
    url = ("s3" if scheme in {"s3a", "s3n"} else scheme) + slashes + found["rest"]
    return None if url == text else url
