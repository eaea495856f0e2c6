from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from firnline.errors import ScratchFullError, StoreError
from firnline.store.transfer import (
    BEFORE_THREADS_MS,
    BYTES_AHEAD,
    CONCURRENCY,
    FIRST_AHEAD,
    LOOK_AHEAD,
    Held,
    each,
    each_in_folder,
    to_file,
)
from tests.support.world import SetClock

HUNG_S = 60


@pytest.mark.long
def test_results_come_in_the_order_of_the_keys() -> None:
    later = threading.Event()

    def one(key: str) -> str:
        if key == "0":
            assert later.wait(HUNG_S)  # the first is done after one that comes later
        if key == "1":
            later.set()
        return key + "!"

    keys = [str(number) for number in range(200)]
    assert list(each(keys, one)) == [key + "!" for key in keys]


@pytest.mark.parametrize("count", [0, 1, 2, CONCURRENCY, LOOK_AHEAD + 1])
def test_every_key_is_fetched_once(count: int) -> None:
    keys = [str(number) for number in range(count)]
    assert list(each(keys, str)) == keys


@pytest.mark.parametrize("allowed", [CONCURRENCY, 3])
def test_no_more_is_under_way_than_allowed(allowed: int) -> None:
    lock, running, most = threading.Lock(), 0, 0
    full = threading.Barrier(allowed, timeout=HUNG_S)

    def one(key: str) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        full.wait()  # nobody goes on before as many are under way as may be
        with lock:
            running -= 1

    list(each([str(number) for number in range(10 * allowed)], one, allowed))
    assert most == allowed


class Taken(list[str]):
    """Keys that count how many of them somebody has taken."""

    taken = 0

    def __iter__(self) -> Iterator[str]:
        for key in super().__iter__():
            self.taken += 1
            yield key


def test_nothing_is_fetched_far_ahead_of_the_consumer() -> None:
    started: list[str] = []

    def one(key: str) -> str:
        started.append(key)
        return key

    keys = Taken(str(number) for number in range(1000))
    results = each(keys, one)
    assert (started, keys.taken) == ([], 0)
    for _ in range(10):
        next(results)
    assert 10 <= len(started) <= keys.taken <= 10 + LOOK_AHEAD
    results.close()
    assert len(started) <= keys.taken <= 10 + LOOK_AHEAD


class Fetched:
    """Counts the bytes of objects that are fetched, or under way, and not taken."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = {str(number): size for number, size in enumerate(sizes)}
        self.held = self.most = self.started = 0
        self.lock = threading.Lock()

    def one(self, key: str) -> int:
        with self.lock:
            self.started += 1
            self.held += self.sizes[key]
            self.most = max(self.most, self.held)
        return self.sizes[key]

    def take(self, *, known: bool) -> list[int]:
        """Take all of them, one after the other."""
        found = []
        held = Held[int](self.sizes if known else {}, lambda size: size)
        for size in each(list(self.sizes), self.one, held=held):
            found.append(size)
            with self.lock:
                self.held -= size
        return found


MANY = [BYTES_AHEAD // 10] * 40
"""Objects of which ten may be held."""


@pytest.mark.parametrize("sizes", [MANY, [*MANY, 0, 1, BYTES_AHEAD, BYTES_AHEAD * 2, *MANY]])
def test_no_more_bytes_are_held_than_allowed_but_for_one_object(sizes: list[int]) -> None:
    fetched = Fetched(sizes)
    assert fetched.take(known=True) == sizes
    # What is taken counts until the consumer lets go of it.
    assert fetched.most <= max(BYTES_AHEAD, *sizes) + max(sizes)


def test_ten_are_fetched_ahead_where_ten_may_be_held() -> None:
    fetched = Fetched(MANY)
    held = Held[int](fetched.sizes, lambda size: size)
    results = each(list(fetched.sizes), fetched.one, held=held)
    next(results)
    results.close()
    assert held.admits("0") is False
    assert fetched.started <= 11


def test_of_unknown_sizes_as_many_are_held_as_if_all_were_as_large_as_the_largest_so_far() -> None:
    fetched = Fetched(MANY)
    assert fetched.take(known=False) == MANY
    assert fetched.most <= BYTES_AHEAD + MANY[0]


def test_until_one_of_unknown_size_is_there_few_are_fetched() -> None:
    first = threading.Event()
    fetched = Fetched([1] * 100)

    def one(key: str) -> int:
        assert first.wait(HUNG_S)
        return fetched.one(key)

    held = Held[int]({}, lambda size: size)
    for number in range(FIRST_AHEAD):
        assert held.admits(str(number))
        held.add(str(number))
    assert not held.admits("next")
    held.remove("0", 1)
    assert held.admits("next")
    first.set()
    assert list(each(list(fetched.sizes), one, held=Held({}, lambda size: size))) == [1] * 100


def test_an_object_larger_than_all_that_may_be_held_is_fetched_alone() -> None:
    held = Held[int]({"large": BYTES_AHEAD + 1, "small": 1}, lambda size: size)
    assert held.admits("large")
    held.add("large")
    assert not held.admits("small")
    held.remove("large", BYTES_AHEAD + 1)
    held.add("small")
    assert not held.admits("large")


def test_the_first_error_ends_it() -> None:
    def one(key: str) -> str:
        if key == "7":
            raise StoreError("7 failed", next_step="try again")
        return key

    results = each([str(number) for number in range(500)], one)
    with pytest.raises(StoreError, match="7 failed"):
        list(results)


def test_threads_end_with_the_iteration() -> None:
    list(each([str(number) for number in range(100)], str))
    assert not [t for t in threading.enumerate() if t.name.startswith("firnline-store")]


def test_a_stream_becomes_a_file(tmp_path: Path) -> None:
    assert to_file([b"ab", b"", b"c"], tmp_path / "f") == 3
    assert (tmp_path / "f").read_bytes() == b"abc"


def test_a_file_that_cannot_be_written_is_no_failure_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        to_file([b"a"], tmp_path / "none" / "f")


def test_a_full_disk_is_told_apart() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(ScratchFullError, match="no space is left on the disk of /dev"):
        to_file([b"a" * 2**20], full)


def test_a_broken_stream_is_the_stores_failure(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"a"
        raise ConnectionResetError("peer")

    with pytest.raises(ConnectionResetError):
        to_file(broken(), tmp_path / "f")


@pytest.mark.parametrize(("cost_ms", "alone"), [(0, 100), (1, BEFORE_THREADS_MS), (50, 1)])
def test_files_are_read_without_threads_until_those_cost_less(cost_ms: int, alone: int) -> None:
    clock, without = SetClock(), 0

    def one(key: str) -> str:
        nonlocal without
        if threading.current_thread() is threading.main_thread():
            without += 1
            clock.advance(cost_ms)
        return key

    keys = [str(number) for number in range(100)]
    assert list(each_in_folder(keys, one, clock)) == keys
    assert without == alone
