"""Names of partitions as an erase shows them: without values that may be keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from firnline.settings.fields import NAMED_TRANSFORMS
from firnline.shown import HIDDEN
from firnline.types.sql import fold_name

if TYPE_CHECKING:
    from firnline.operations.runner import Failure

_PATH = re.compile(r"\S*(?:[/=]|\.parquet)\S*?(?=[;:,.)]*(?:\s|$))")
"""A word of a sentence, without the punctuation after it."""


def shown_partition(partition: str, columns: Collection[str]) -> str:
    """Return a partition's path without the values of columns, and without folders of any name.

    Args:
        partition: its path.
        columns: of keys.
    """
    names = {fold_name(name) for name in columns}
    names |= {f"{name}_{transform}" for name in names for transform in NAMED_TRANSFORMS}
    return "/".join(_shown(segment, names) for segment in partition.split("/"))


def columns_in(partitions: Iterable[str]) -> set[str]:
    """Return all columns that paths of partitions name: those of keys where these are not known."""
    segments = (part for partition in partitions for part in partition.split("/"))
    return {unquote(segment.partition("=")[0]) for segment in segments}


def may_name_keys(partition: str, columns: Collection[str]) -> bool:
    """Return True if a partition's path has a value of one of the columns, or a folder's name."""
    return shown_partition(partition, columns) != partition


def shown_key(key: str, folder: str, columns: Collection[str]) -> str:
    """Return the key of a part, with its partition as ``shown_partition`` returns it.

    Args:
        key: of the part, under ``folder``.
        folder: ``TablePaths.data_dir``.
        columns: of keys.
    """
    if not key.startswith(folder):
        return key
    partition, mark, name = key.removeprefix(folder).rpartition("/")
    return f"{folder}{shown_partition(partition, columns)}{mark}{name}"


def shown_failure(failure: Failure, folder: str, columns: Collection[str]) -> Failure:
    """Return a failure without the values of columns that paths in it may have.

    Args:
        failure: of a group of parts.
        folder: ``TablePaths.data_dir``.
        columns: of keys.
    """
    partition, message = shown_partition(failure.partition, columns), failure.message
    if failure.partition:
        message = message.replace(failure.partition, partition)
    key = None if failure.key is None else shown_key(failure.key, folder, columns)
    return msgspec.structs.replace(failure, partition=partition, message=message, key=key)


def without_paths(text: str) -> str:
    """Return a sentence without what may be a path: a store or a mirror may name one in an error.

    Args:
        text: whole sentences; commands in it name no path.
    """
    return _PATH.sub(HIDDEN, text)


def _shown(segment: str, names: set[str]) -> str:
    name, mark, _ = segment.partition("=")
    if not segment:
        return segment
    if not mark:
        return HIDDEN
    return f"{name}={HIDDEN}" if fold_name(unquote(name)) in names else segment
