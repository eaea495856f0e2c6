"""What dead runs leave that may hold keys of an erase: files of keys, uploads, prepared changes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from firnline.commit.base import Base
from firnline.errors import ObjectNotFoundError, StoreError
from firnline.ids import uuid7_time_ms
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.certificate import (
    Listed,
    Remaining,
    forget,
    list_certificates,
    remaining,
)
from firnline.operations.erase.evidence import Search
from firnline.operations.erase.sweeping import sweep_step
from firnline.operations.prepared.expiry import discard_changed
from firnline.operations.prepared.objects import made_before
from firnline.store.multipart import open_uploads
from firnline.store.upload import OpenUploads, Upload
from firnline.table import Table

WHY_DISCARDED = "rows of it were erased"


def is_over(table: Table, listed: Listed, commit_ttl: int) -> bool:
    """Return True if the run of an erase needs its file of keys no more."""
    if listed.status in {"waiting", "complete"}:
        return True
    return uuid7_time_ms(listed.id) + commit_ttl < table.clock.now_ms()


def clear_keys(search: Search) -> tuple[Remaining, ...]:
    """Delete the files of keys of runs that cannot commit any more; return those that remain.

    Of any run: a file does not say whose keys it has, and the erase may have been tried before.

    Requests: one LIST of ``_erase/``, and one DELETE for each file.
    """
    table, ttl = search.table, search.waits.commit_ttl
    listing = [listed for listed in list_certificates(table) if listed.has_keys]
    done = [listed for listed in listing if is_over(table, listed, ttl)]
    young = [listed for listed in listing if listed not in done]
    left = [key for key in (table.paths.erase_keys(d.id) for d in done) if not forget(table, key)]
    again = f"run `firnline certificate {table.settings.name} {search.certificate.id}` then"
    return (
        *remaining(
            "keys file",
            [table.paths.erase_keys(listed.id) for listed in young],
            "keys of an erase that is under way, or has died and might still commit",
            again,
            max((uuid7_time_ms(listed.id) + ttl for listed in young), default=None),
        ),
        *remaining("keys file", left, "the store did not delete it", again),
    )


def clear_uploads(search: Search) -> tuple[Remaining, ...]:
    """Abort uploads of keys that nobody ends any more; return all that remain.

    A store keeps what was uploaded of an object that was never completed, and no listing shows it.

    Requests: two LIST, and one for each that is aborted; none where the store has no such uploads.
    """
    table = search.table
    uploads = open_uploads(table.settings.root, table.access, table.store.counters)
    if uploads is None:
        return ()
    try:
        left = [*_uploads_of_keys(search, uploads), *_other_uploads(search, uploads)]
    except StoreError as error:
        why = f"uploads that were never completed cannot be listed: {error.message}"
        return (Remaining(kind="upload", count=0, why=why, next_step=error.next_step),)
    return remaining(
        "upload",
        [upload.name for upload in left],
        "begun before the erase ended, or by somebody who has ended or sleeps; never completed",
        sweep_step(search, max((upload.began_ms for upload in left), default=0)),
    )


def _uploads_of_keys(search: Search, uploads: OpenUploads) -> Iterator[Upload]:
    for upload in uploads.list(search.table.paths.erase_dir):
        dead = upload.began_ms + search.waits.commit_ttl < search.inventory.now_ms
        if not dead or uploads.abort(upload) is not None:
            yield upload


def _other_uploads(search: Search, uploads: OpenUploads) -> Iterator[Upload]:
    # A young one is of somebody who works now. Whether that one slept before, nobody can tell; it
    # is as if it had uploaded after the completion.
    dead = search.inventory.now_ms - search.longest_ms
    paths = search.table.paths
    # Logs, prepared changes and mirrors have values of rows, too.
    found = chain(uploads.list(paths.data_dir), uploads.list_free(paths.small_dirs))
    return (upload for upload in found if upload.began_ms < max(search.over_ms, dead))


def clear_prepared(search: Search, base: Base, run: RunIdentity) -> tuple[Remaining, ...]:
    """Discard prepared changes from before the erase that nobody can commit; return what remains.

    Their statements may show rows of the keys, and conditions with them.

    Requests: one LIST of ``_prepared/`` and one GET for each change; if there is one from before
    the erase, those of ``discard_changed`` and the LIST and GET again.
    """
    table, seq = search.table, search.replaced.seq
    if not made_before(table, seq):
        return ()
    discard_changed(table, base, run, WHY_DISCARDED)
    name = table.settings.name
    return remaining(
        "prepared change",
        made_before(table, seq),
        "prepared before the erase; it may show rows of the keys",
        f"end it (`firnline rewrite {name} --prepared` names it), or run `firnline sweep {name} "
        "--delete`, which ends a commit that nobody finishes",
    )


def find_clone_plan(search: Search) -> tuple[Remaining, ...]:
    """Return the plan of a clone to this place that never ended. Requests: 1 GET."""
    table = search.table
    try:
        table.store.get(table.paths.clone_plan)
    except ObjectNotFoundError:
        return ()
    return remaining(
        "clone plan",
        [table.paths.clone_plan],
        "it names the parts of the table that was cloned, with their bounds",
        "run that clone again, which ends it, or delete the object if it has ended",
    )
