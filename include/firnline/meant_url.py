"""What a person means who writes a URL almost right, and what to do instead."""

from __future__ import annotations

import os
import re
from pathlib import Path

from firnline.errors import UsageError

_ALMOST_URL = re.compile(r"(?P<scheme>s3[an]?|gc?s|az|file):/+(?P<rest>[^/].*)", re.IGNORECASE)
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_ARN = re.compile(r"arn:aws[\w-]*:s3:::(?P<rest>[^/].*)", re.IGNORECASE)
_AZURE = re.compile(
    r"(?:abfs|wasb)s?://(?P<container>[^@/]+)@[^/]+(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)
_DATABRICKS = re.compile(r"dbfs:.*", re.IGNORECASE | re.DOTALL)
_OTHER_ARN = re.compile(r"arn:.*", re.IGNORECASE | re.DOTALL)
_UNFILLED = re.compile(r"(?<!\w)\$(?:[A-Za-z_]\w*|\{[^}]*\})|\{\{.*?\}\}", re.DOTALL)
"""A variable of a shell, or an expression of a template; not the ``$`` within a name."""
_LOCAL_HOST = re.compile(r"file://localhost/+(?P<rest>.*)", re.IGNORECASE | re.DOTALL)


def is_path(text: str) -> bool:
    """Return True if a text looks like the path of a file or a folder, and like no URL."""
    if _ARN.fullmatch(text) or _OTHER_ARN.fullmatch(text) or _DATABRICKS.fullmatch(text):
        return False
    return "://" not in text and ("/" in text or text.startswith((".", "~")))


def meant_url(text: str) -> str | None:
    """Return the URL that a text seems to mean: of a folder, or of a scheme in other letters.

    None if it is no path either, or as right as it can be seen to be.
    """
    named = _in_other_words(text)
    if named is not None:
        return named
    match = _ALMOST_URL.fullmatch(text)
    if match is None:
        return _of_path(text) if is_path(text) else None
    scheme, rest = match["scheme"].lower(), match["rest"]
    if scheme != "file" and "@" in rest.partition("/")[0]:
        return None  # not repeated: it holds a credential
    if scheme == "file" and rest.startswith("~"):
        return _of_path(rest)
    slashes = ":///" if scheme == "file" else "://"
    url = _SCHEMES.get(scheme, scheme) + slashes + rest
    return None if url == text else url


def step_to(text: str, *, word_is_path: bool = False) -> str | None:
    """Return the next step for a text that is almost a URL; None where ``meant_url`` has none.

    Args:
        text: what was given.
        word_is_path: a single word is the path of a folder here, and no name of a table.
    """
    if _DATABRICKS.fullmatch(text):
        return (
            "write the s3://, gs:// or az:// URL (abfss:// there) of the folder behind it: the "
            "file system of Databricks is no store"
        )
    url = meant_url(text)
    if url is None and _OTHER_ARN.fullmatch(text):
        return "write the s3:// URL of the bucket itself, such as s3://bucket/prefix"
    if url is None and word_is_path and text and ":" not in text:
        url = _of_path(text)
    return None if url is None else f"write {url}"


def refuse_unfilled(text: str) -> None:
    """Refuse a variable or an expression of a template, which would become part of a key.

    Raises UsageError, which names it.
    """
    match = _UNFILLED.search(text)
    if match is not None:
        # Without the whole text: a URL may hold a credential.
        raise UsageError(
            f"{match[0]} in the name of a table or a folder is not filled in here",
            next_step="write what it stands for, or in a settings file ${NAME}, a variable of the "
            "environment",
        )


def _in_other_words(text: str) -> str | None:
    """Return the URL of what other programs name in another way; None for any other text."""
    if match := _ARN.fullmatch(text):
        return f"s3://{match['rest']}"
    if match := _AZURE.fullmatch(text):
        return f"az://{match['container']}{match['rest']}"
    if match := _LOCAL_HOST.fullmatch(text):
        return f"file:///{match['rest']}"
    return None


def _of_path(path: str) -> str:
    """Return the URL of a path of this machine, with the home for ``~``."""
    there = os.path.expanduser(path)  # noqa: PTH111 - Path's raises for a user who is not there
    # Not resolved: a link is named as its user knows it.
    return f"file://{os.path.normpath(Path(there).absolute())}"
