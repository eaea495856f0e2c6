"""Other bytes under a key that has some: the old ones or the new ones, and it is known which."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import StoreError, StoreUnavailableError
from firnline.store.client import open_store
from firnline.store.create import overwrite
from firnline.store.sizes import PART_BYTES
from tests.support.world import Fault, FaultyStore, MemoryStore, SetClock


def test_a_file_and_its_hard_link_part_company(tmp_path: Path) -> None:
    """As a copy made by `cp -l`: the original stays what it was."""
    store = open_store(f"file://{tmp_path}/t")
    store.put_new("t/a", b"old")
    (tmp_path / "linked").hardlink_to(tmp_path / "t" / "a")
    overwrite(store, "t/a", b"new")
    assert store.get("t/a") == b"new"
    assert (tmp_path / "linked").read_bytes() == b"old"
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["a"]


def test_a_lost_answer_is_no_failure() -> None:
    store = MemoryStore(SetClock())
    store.put_new("a", b"old")
    overwrite(FaultyStore(store, Fault(0, "lost")), "a", b"new")
    assert store.get("a") == b"new"


class _Silent(MemoryStore):
    """Forgets uploads, and fails or not."""

    fails = True

    def put_file(self, key: str, file: Path | bytes) -> None:
        if self.fails:
            raise StoreUnavailableError("no answer", next_step="try again")


@pytest.mark.long
@pytest.mark.parametrize("fails", [True, False])
def test_a_large_upload_that_was_lost_is_not_taken_for_done_by_its_size(fails: bool) -> None:
    store = _Silent(SetClock())
    store.fails = fails
    old, new = b"o" * (PART_BYTES + 1), b"n" * (PART_BYTES + 1)
    store.put_new("a", old)
    with pytest.raises(StoreError):
        overwrite(store, "a", new)
    assert store.get("a") == old
