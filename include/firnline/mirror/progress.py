"""Progress of a publication, in any format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar

import msgspec

T = TypeVar("T")
_EVERY = 1_000
"""Files after which a publication tells how far it is."""


class MirrorProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one stage of a publication; a version of few files has one state of each."""

    format: str
    stage: Literal["look", "describe", "write"]
    """Parts are looked through for rows that deletes hide; statistics of files are put into the
    terms of the format; files are written into its metadata. Delta does the last two as one."""
    done: int
    total: int


OnProgress = Callable[[MirrorProgress], object]


def silent(_: MirrorProgress) -> None:
    """Tell nobody."""


def told(
    files: Iterable[T],
    total: int,
    name: str,
    stage: Literal["describe", "write"],
    tell: OnProgress,
) -> Iterator[T]:
    """Yield files, and tell before the first, after each thousandth and the last how far it is."""
    if total:
        tell(MirrorProgress(format=name, stage=stage, done=0, total=total))
    for done, file in enumerate(files, 1):
        yield file
        if done % _EVERY == 0 or done == total:
            tell(MirrorProgress(format=name, stage=stage, done=done, total=total))
