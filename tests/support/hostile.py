"""Damage, one byte at a time, and a store that remembers what it was asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from firnline.errors import FirnlineError
from firnline.store.base import Deleted
from tests.support.world import MemoryStore, SetClock

T = TypeVar("T")
CHOSEN = (0x00, 0x0A, 0x20, 0x22, 0x2C, 0x30, 0x39, 0x7D, 0xFF)
"""Bytes that mean something to JSON, to lines, or to UTF-8."""


def replaced(data: bytes, at: int) -> Iterator[bytes]:
    """The byte at one position changed: each of its bits, and into each of ``CHOSEN``."""
    values = {data[at] ^ (1 << bit) for bit in range(8)} | set(CHOSEN)
    for value in sorted(values - {data[at]}):
        yield data[:at] + bytes([value]) + data[at + 1 :]


def shifted(data: bytes, at: int) -> Iterator[bytes]:
    """Cut before a position, begun behind it, one byte lost or doubled there, or one put in."""
    yield data[:at]
    yield data[at + 1 :]
    yield data[:at] + data[at + 1 :]
    yield data[: at + 1] + data[at:]
    for value in (b" ", b"\n", b"0"):
        yield data[:at] + value + data[at:]


def regrouped(data: bytes) -> Iterator[bytes]:
    """A line lost, doubled, or swapped with the next."""
    lines = data.split(b"\n")
    for at in range(len(lines)):
        yield b"\n".join(lines[:at] + lines[at + 1 :])
        yield b"\n".join([*lines[:at], lines[at], *lines[at:]])
        yield b"\n".join([*lines[:at], *lines[at : at + 2][::-1], *lines[at + 2 :]])


def damaged(data: bytes) -> Iterator[bytes]:
    """All of the above, at every position."""
    for at in range(len(data)):
        yield from replaced(data, at)
        yield from shifted(data, at)
    yield from regrouped(data)


def refusal(named: str, act: Callable[..., object], *args: Any, **options: Any) -> FirnlineError:
    """The error of the tree that a call ends with; ``named`` stands in it.

    Any other exception goes on to the test.
    """
    with pytest.raises(FirnlineError) as caught:
        act(*args, **options)
    assert named in str(caught.value)
    assert caught.value.next_step
    return caught.value


def reading(named: str, act: Callable[..., T], *args: Any, **options: Any) -> T | None:
    """What a call gives; None when it ends with an error of the tree, in which ``named`` stands.

    Any other exception goes on to the test.
    """
    refused: FirnlineError
    try:
        return act(*args, **options)
    except FirnlineError as error:
        refused = error
    assert named in str(refused)
    assert refused.next_step
    return None


class RecordingStore(MemoryStore):
    """Remembers every key that was read, written or deleted."""

    def __init__(self, clock: SetClock) -> None:
        super().__init__(clock)
        self.read: list[str] = []
        self.written: list[str] = []
        self.deleted: list[str] = []

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)

    def put_new(self, key: str, data: bytes) -> None:
        self.written.append(key)
        super().put_new(key, data)

    def put_file(self, key: str, file: Path | bytes) -> None:
        self.written.append(key)
        super().put_file(key, file)

    def copy(self, source: str, key: str) -> None:
        self.read.append(source)
        self.written.append(key)
        super().copy(source, key)

    def get_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
        self.read += keys
        return super().get_many(keys)

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        wanted = list(keys)
        self.deleted += wanted
        return super().delete_many(wanted)

    def forget(self) -> None:
        """Begin anew."""
        self.read.clear()
        self.written.clear()
        self.deleted.clear()
