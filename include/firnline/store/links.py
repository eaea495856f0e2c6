"""Refuse requests in a ``file://`` store that involve symbolic links below a table's folder.

A bucket has no links. Through a link in a folder a listing would show, and a sweep delete, files
outside of the table. A link whose target is not mounted makes a folder look empty, and a table
without its log looks like a new one. So a link is neither followed nor ignored. The folder that a
root URL names, the first segment of every key, may be a link itself, and so may the folders above
it: the user has chosen them.

The check protects against existing links, not against an attacker who replaces a folder by a link
between the check and the request.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from firnline.errors import LinkRefusedError


def refuse_links(folder: str, keys: Iterable[str]) -> None:
    """Check every segment of each key below the first; one ``lstat`` each, no request.

    Args:
        folder: of the store, which keys are relative to.
        keys: of a request; the objects need not exist.

    Raises:
        LinkRefusedError: the path of a key contains a link.
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
    """Check a folder before it is listed; reads names, not sizes.

    Args:
        folder: of the store.
        prefix: key prefix of the listing, checked itself already; need not exist.

    Raises:
        LinkRefusedError: there is a link below ``prefix``.
    """
    todo = [os.path.join(folder, prefix.rstrip("/"))]  # noqa: PTH118 - scandir gives text
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise _refused(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # it does not exist, or was deleted meanwhile
        except PermissionError:
            continue  # the listing itself fails with it too


def _refused(path: str) -> LinkRefusedError:
    return LinkRefusedError(
        f"{path} is a symbolic link, and a table's objects must be in its own folder: nothing "
        "behind the link is read, listed or deleted",
        next_step="replace the link by its target, or remove it; the table's folder "
        "itself may be a link",
    )
