"""Checkpoints of the mirror, and the versions that expire behind them.

Without a checkpoint a reader of the mirror fetches every version. The library ``deltalake`` makes
it, from a local copy of what it needs: the last checkpoint and the versions since. So it works on
every store, with the table's own access and retries. The library is an extra and is imported only
here; without it the mirror is right, and readers fetch more.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path

import msgspec

from firnline.errors import MirrorDamagedError
from firnline.extras import to_install
from firnline.mirror.delta.expiry import expire_vectors, newest_of
from firnline.mirror.delta.head import Listing, Version, list_versions
from firnline.next_steps import VERSIONS_EXPIRE, WRITE_ANEW
from firnline.paths import TablePaths
from firnline.store.base import Deleted, Store
from firnline.store.create import overwrite
from firnline.table import Table

EVERY = 100
"""Versions after which a checkpoint is due."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Result of shortening the log of the mirror."""

    checkpoint: int | None = None
    """Version of which a checkpoint was written."""
    expired: int = 0
    """Objects of older versions that were deleted."""
    warning: str = ""


def keep_short(table: Table, version: int, grace: int) -> Kept:
    """Write a checkpoint of each hundredth version, and delete what expired behind an older one.

    What is behind a checkpoint that is as old as the grace goes: clean-up deletes the parts of such
    versions anyway. So do deletion vectors that no version within the grace names. A failure costs
    readers time only, and is a warning.

    Requests: none for other versions, else a LIST per 1,000 versions; for a checkpoint a GET per
    version since the last one, 1 for that, and 2 PUT; deletes as ``Store.delete_many``; those of
    ``expire_vectors``.

    Args:
        table: the table.
        version: the newest version.
        grace: the longest that a reader may have, ms.
    """
    if version % EVERY:
        return Kept()
    store, paths = table.store, table.paths
    listing = list_versions(store, paths, whole=True)
    last = max((c.number for c in listing.checkpoints), default=-1)
    written: int | None = None
    if version - last >= EVERY:
        if find_spec("deltalake") is None:
            return Kept(
                warning=f"the mirror has {version - last} versions and no checkpoint, which "
                f"every reader fetches: run {to_install('deltalake')}"
            )
        write_checkpoint(store, paths, version, listing)
        written = version
    # Who publishes may have any clock; the version that was just put has the store's.
    newest = max((v.modified_ms for v in listing.versions), default=0)
    limit = min(table.clock.now_ms(), newest) - grace
    old = [c.number for c in listing.checkpoints if c.modified_ms <= limit]
    expired, failed = expire(store, listing, max(old, default=0))
    vectors = expire_vectors(store, paths, newest_of(listing, limit))
    expired, failed = expired + vectors[0], failed + vectors[1]
    warning = f"{failed} old objects of the mirror could not be deleted" if failed else ""
    return Kept(checkpoint=written, expired=expired, warning=warning)


def expire(store: Store, listing: Listing, before: int) -> tuple[int, int]:
    """Delete all versions and checkpoints before a version; return how many went and did not.

    There has to be a checkpoint of that version, or it is 0.
    """
    gone = [v for v in (*listing.versions, *listing.checkpoints) if v.number < before]
    if not gone:
        return 0, 0
    keys = [v.key for v in sorted(gone, key=_number)]
    answers: list[Deleted] = list(store.delete_many(keys))
    done = sum(answer.error is None for answer in answers)
    return done, len(keys) - done


def write_checkpoint(
    store: Store, paths: TablePaths, version: int, listing: Listing, *, tombstones: bool = True
) -> None:
    """Write the checkpoint of a version. Requests: see ``keep_short``.

    Args:
        store: of the table.
        paths: of the table.
        version: that it is of.
        listing: of all versions.
        tombstones: also name the files that were removed of late, which no reader needs: only a
            VACUUM does, and the table's own clean-up deletes its parts.

    Raises MirrorDamagedError: a version is missing, or the library cannot read one.
    """
    last = max((c for c in listing.checkpoints if c.number < version), default=None, key=_number)
    first = 0 if last is None else last.number
    since = [v for v in listing.versions if first <= v.number <= version]
    if not listing.has_all(first if last is None else first + 1, version):
        raise MirrorDamagedError(
            f"{paths.delta_dir} lacks versions between {first} and {version}",
            next_step=WRITE_ANEW,
        )
    with tempfile.TemporaryDirectory(prefix="firnline-mirror-") as folder:
        log = Path(folder) / "_delta_log"
        log.mkdir()
        _copy(store, paths, [*since, *([] if last is None else [last])], log)
        if last is not None:
            (log / "_last_checkpoint").write_text(f'{{"version":{last.number},"size":1}}')
        _make(Path(folder), version)
        made = log / f"{version:020d}.checkpoint.parquet"
        if not tombstones:
            _without_tombstones(made)
        store.put_file(f"{paths.delta_dir}{made.name}", made)
        hint = (log / "_last_checkpoint").read_bytes()
    if all(c.number < version for c in listing.checkpoints):
        # Only a hint: readers that find an older one list more.
        overwrite(store, paths.delta_last_checkpoint, hint)


def _copy(store: Store, paths: TablePaths, versions: list[Version], log: Path) -> None:
    for key, data in store.get_many([v.key for v in versions]):
        if data is None:
            raise MirrorDamagedError(
                f"{key} was deleted while the mirror was read",
                next_step=VERSIONS_EXPIRE,
            )
        (log / key.removeprefix(paths.delta_dir)).write_bytes(data)


def _make(folder: Path, version: int) -> None:
    from deltalake import DeltaTable

    try:
        DeltaTable(str(folder), version=version).create_checkpoint()
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise MirrorDamagedError(
            f"the library deltalake makes no checkpoint of version {version} of the mirror: "
            f"{type(error).__name__}: {reason}",
            next_step="see what `firnline mirror --check` says: if the mirror reads, only its "
            "readers fetch more",
        ) from error


def _without_tombstones(path: Path) -> None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    rows = pq.read_table(path)
    pq.write_table(rows.filter(pc.is_null(pc.struct_field(rows["remove"], "path"))), path)


def _number(version: Version) -> int:
    return version.number
