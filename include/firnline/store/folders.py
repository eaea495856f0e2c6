"""List the folders right below a place, one level deep, as a LIST with a delimiter does.

A folder is what keys have in common up to a slash; one that holds no object is none, also on a
local disk, where a table that was deleted leaves its empty folders. obstore refuses a listing with
a key or folder that it cannot name, such as one of two slashes, and boto3 shows it. Such a folder
is left out: no root URL leads there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import obstore
from obstore.exceptions import InvalidPathError

from firnline.store.links import refuse_links
from firnline.store.multipart import translated
from firnline.store.requests import LIBRARY_ERRORS, Requests

_PAGE = 1_000
"""Keys and folders of one answer, the limit of S3."""


def folders_below(requests: Requests, prefix: str) -> list[str]:
    """Return the folders right below ``prefix``, as key prefixes that end in ``/``, sorted.

    Requests: 1 LIST for each 1,000 folders and objects right below ``prefix``.

    Args:
        requests: to the bucket.
        prefix: empty for the whole bucket, or ending in ``/``.

    Raises:
        LinkRefusedError: on a local disk ``prefix`` is, or leads through, a symbolic link below its
            first segment; no request was made.
        StoreError: the store or the folder cannot be listed. What does not exist has no folders.
    """
    ask = _local if requests.backend.scheme == "file" else _of_store
    if ask is _local:
        refuse_links(requests.bucket, [prefix])
    found = requests.run("LIST", prefix or "/", lambda: ask(requests, prefix))
    return sorted(each for each in found if _has_name(each, prefix))


def _has_name(folder: str, prefix: str) -> bool:
    return folder.removeprefix(prefix).rstrip("/") not in {"", ".", ".."} and "//" not in folder


def _of_store(requests: Requests, prefix: str) -> list[str]:
    try:
        found = obstore.list_with_delimiter(requests.readable(), prefix.rstrip("/") or None)
    except InvalidPathError:
        requests.count(list=1)
        if requests.backend.second is None:
            raise
        return list(_by_boto(requests, prefix))
    except LIBRARY_ERRORS:
        requests.count(list=1)
        raise
    listed = len(found["common_prefixes"]) + len(found["objects"])
    requests.count(list=max(1, -(-listed // _PAGE)))
    return [f"{folder}/" for folder in found["common_prefixes"]]


def _by_boto(requests: Requests, prefix: str) -> Iterator[str]:
    """Yield the folders by the client that names every key."""
    client, mark = requests.second(), dict[str, str]()
    while True:
        requests.count(list=1)
        with translated(f"LIST of {prefix} in {requests.backend.where}"):
            page: dict[str, Any] = client.list_objects_v2(
                Bucket=requests.bucket, Prefix=prefix, Delimiter="/", **mark
            )
        yield from (each["Prefix"] for each in page.get("CommonPrefixes", ()))
        if not page.get("IsTruncated"):
            return
        mark = {"ContinuationToken": page["NextContinuationToken"]}


def _local(requests: Requests, prefix: str) -> list[str]:
    requests.count(list=1)
    top = os.path.join(requests.bucket, prefix)  # noqa: PTH118 - a key, not a path
    try:
        with os.scandir(top) as entries:
            names = [entry.name for entry in entries if entry.is_dir() and _holds_files(entry)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [f"{prefix}{name}/" for name in names if _is_text(name)]


def _holds_files(entry: os.DirEntry[str]) -> bool:
    """Return True for a folder with a file at any depth, or one that this user may not look into.

    A link is not followed: it counts as a folder with files, and listing that is refused.
    """
    if entry.is_symlink():
        return True
    todo = [entry.path]
    while todo:
        try:
            with os.scandir(todo.pop()) as below:
                for each in below:
                    if not each.is_dir(follow_symlinks=False):
                        return True
                    todo.append(each.path)
        except FileNotFoundError:
            continue
        except PermissionError:
            return True
    return False


def _is_text(name: str) -> bool:
    """Return False for the name of a file that is no UTF-8, which no key has."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
