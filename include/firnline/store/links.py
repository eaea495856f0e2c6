"""Symbolic links in a ``file://`` store: none below a table's folder, or the request is refused.

A bucket has no links: a key is the place of its object. A link in a folder lets a listing show, and
a sweep delete, what lies outside of the table; one whose target is not mounted makes the folder
behind it look empty, and a table without its log reads as a new one. So a link is neither followed
nor passed over. The folder that a root URL names, the first segment of every key, may be a link
itself, and so may whatever lies above it: that is where the user said that the table is.

This is a guard against folders as they lie, not against somebody who exchanges a folder for a link
between the check and the request.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from firnline.errors import StoreAccessError


def refuse_links(folder: str, keys: Iterable[str]) -> None:
    """Look at every segment of each key below the first; one ``lstat`` each, no request.

    Args:
        folder: the store's own, which keys are relative to.
        keys: what a request is about to touch; need not be there.

    Raises:
        StoreAccessError: one of them leads through a link, or is one.
    """
    folders: set[str] = set()
    for key in keys:
        first, *rest = key.rstrip("/").split("/")
        path = os.path.join(folder, first)  # noqa: PTH118 - a Path each would cost ten times this
        for number, segment in enumerate(rest, start=1):
            path = f"{path}/{segment}"
            if path in folders:
                continue
            if os.path.islink(path):  # noqa: PTH114 - as above
                raise _refused(path)
            if number < len(rest):
                folders.add(path)


def refuse_links_below(folder: str, prefix: str) -> None:
    """Look through a folder that is about to be listed; asks the system for names, not for sizes.

    Args:
        folder: the store's own.
        prefix: key prefix of the listing, itself looked at already; need not be there.

    Raises:
        StoreAccessError: there is a link below ``prefix``.
    """
    todo = [os.path.join(folder, prefix.rstrip("/"))]  # noqa: PTH118 - scandir gives text
    while todo:
        try:
            with os.scandir(todo.pop()) as found:
                for entry in found:
                    if entry.is_symlink():
                        raise _refused(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # nothing is there, or it went away meanwhile
        except PermissionError:
            continue  # the listing itself meets it too, and says so


def _refused(path: str) -> StoreAccessError:
    return StoreAccessError(
        f"{path} is a symbolic link, and a table's objects lie in its own folder only: nothing "
        "behind the link is read, listed or deleted",
        next_step="put what it points to in its place, or remove the link; the table's folder "
        "itself may be a link",
    )
