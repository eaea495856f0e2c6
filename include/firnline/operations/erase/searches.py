"""How a certificate finds what may hold a key, by the kinds of objects that may (``objects``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from firnline import objects
from firnline.commit.base import Base
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.certificate import Remaining
from firnline.operations.erase.evidence import Search
from firnline.operations.erase.leftovers import (
    clear_keys,
    clear_prepared,
    clear_uploads,
    find_clone_plan,
)
from firnline.operations.erase.mirrors import clear_snapshots, clear_versions
from firnline.operations.erase.text import find_text
from firnline.operations.erase.unnamed import find_unnamed

Finds = Callable[[Search, Base, RunIdentity], tuple[Remaining, ...]]

SEARCHES: Mapping[objects.Search, Finds] = {
    "parts": lambda search, _base, _run: (*find_unnamed(search), *clear_uploads(search)),
    "log text": lambda search, _base, _run: find_text(search),
    "clone plans": lambda search, _base, _run: find_clone_plan(search),
    "keys files": lambda search, _base, _run: clear_keys(search),
    "prepared changes": clear_prepared,
    "delta": lambda search, _base, _run: clear_versions(search),
    "iceberg": lambda search, _base, _run: clear_snapshots(search),
}
"""Each deletes what nobody needs any more, and returns what remains. Parts that a log file names
are found by ``evidence.collect_evidence``, before any of these: which ones go depends on them."""
