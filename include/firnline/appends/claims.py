"""Appends with a key: of all tries with one key the rows of exactly one become visible.

A try claims the name of a log file for its key, by a create-only put, before it publishes there:
``_once/{digest}/{number}.json``. Whoever makes the first claim of a key knows that nobody else
publishes, and only has to create that log file. Whoever finds a claim of somebody else looks into
the log, which says whether a key was published, also when the log file is folded and deleted. If it
was not, its owner may have died, or may still publish: so the name that it has claimed is taken
away, by an empty log file under it, and claimed is another one, as the next number. An owner that
continues finds its name taken, and looks again.

Neither clocks nor leases decide (docs/guarantees.md, W5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, Protocol

import msgspec

from firnline.commit.append_log import LogFileTakenError
from firnline.commit.base import take_base
from firnline.errors import LogCorruptError, SnapshotUnstableError, UsageError
from firnline.log import codec, keyed
from firnline.log.keyed import Published
from firnline.log.records import LogContent
from firnline.store.create import create

if TYPE_CHECKING:
    from pathlib import Path

    from firnline.table import Table
from firnline.types.sql import is_unicode

VERSION = 1
ATTEMPTS = 20
"""Maximum number of names that one try claims: each was taken away by another try."""
_LONGEST = 1_000
"""Characters of a key at most."""


class _Claim(msgspec.Struct, frozen=True, kw_only=True):
    v: int = VERSION
    t: int
    """Time in the name of the log file, unix milliseconds."""
    writer: str
    """Writer in that name, which ends in the UUIDv7 of the append."""


class Publishes(Protocol):
    """Rows that wait for the log file that makes them visible."""

    records: tuple[bytes, ...]
    """Extension records of that log file."""

    def publish(self, t: int) -> str:
        """Publish by a log file of this time, unix milliseconds; return its key."""
        ...


class Claims:
    """The claims of one try of an append with a key.

    Args:
        table: with the properties in force.
        key: of the append.
        writer: name in the log file's key; ends in the append's id.
        append_id: UUIDv7 of the append.

    Raises UsageError: no key, or a store without create-only puts.
    """

    def __init__(self, table: Table, key: str, writer: str, append_id: str) -> None:
        check_key(key)
        if table.settings.locking != "fenced":
            raise UsageError(
                f"table {table.settings.name} has locking: {table.settings.locking}: its store "
                "ignores create-only puts, and could add the rows of one key twice",
                next_step="append without a key; nothing was written",
            )
        self._table, self._writer, self._id = table, writer, append_id
        self._digest = keyed.digest_of(key)
        self._mine: int | None = None
        """Time in the name of the log file that this try has claimed last; None: no claim."""

    def first(self, t: int) -> Published | None:
        """Make the first claim of the key; return the append that has published under it already.

        None: nobody has; this try may write its parts. It has the claim, or another try has it,
        which has not published yet.

        Requests: 1 PUT; where there is a claim, 1 GET and those of ``take_base``.

        Args:
            t: time of the log file, unix milliseconds.
        """
        return None if self._claim(1, t) else self._published()

    def publish(self, run: Publishes, date: Callable[[], int]) -> tuple[str, int] | Published:
        """Publish, unless another try has; return key and time of the log file, or that append.

        Requests: those of ``run.publish``; where another try has the claim also 1 LIST, 1
        GET, 2 PUT and those of ``take_base``.

        Args:
            run: the append or import, whose parts are there.
            date: returns the time for a new log file, unix milliseconds.

        Raises as ``run.publish``; SnapshotUnstableError: other tries took each name away.
        """
        for _ in range(ATTEMPTS):
            if self._mine is None:
                published = self._take_over(date)
                if published is not None:
                    return published
                continue
            run.records = (keyed.record(self._digest, self._mine),)
            try:
                return run.publish(self._mine), self._mine
            except LogFileTakenError:
                self._mine = None  # another try has given its owner up
        raise SnapshotUnstableError(
            f"other appends to table {self._table.settings.name} with the same key took over "
            f"{ATTEMPTS} times",
            next_step="append again, with the same key, when none of them runs any more",
        )

    def _take_over(self, date: Callable[[], int]) -> Published | None:
        """Claim the next name, once nobody can publish under the newest that is claimed.

        Returns the append that has. None: this try has the claim, or another one was faster.
        """
        number, claim = self._newest()
        if claim is not None:
            # Whatever is there from now on: either it counts, and the log says so, or it never
            # will. Who reads the log before cannot know.
            self._void(claim)
            published = self._published()
            if published is not None:
                return published
        self._claim(number + 1, date())
        return None

    def _claim(self, number: int, t: int) -> bool:
        key, claim = self._table.paths.claim(self._digest, number), _Claim(t=t, writer=self._writer)
        if create(self._table.store, key, msgspec.json.encode(claim)) is not None:
            return False
        self._mine = t
        return True

    def _newest(self) -> tuple[int, _Claim | None]:
        """Return number and content of the newest claim; (0, None) if clean-up has deleted all."""
        paths, number = self._table.paths, 0
        keys = {meta.key for meta in self._table.store.list(paths.claims_dir(self._digest))}
        while paths.claim(self._digest, number + 1) in keys:
            number += 1
        if not number:
            return 0, None
        key = paths.claim(self._digest, number)
        return number, _decode(key, self._table.store.get(key))

    def _void(self, claim: _Claim) -> None:
        """Take the name away that is claimed, unless a log file has it."""
        content = LogContent(t=claim.t, schema={}, markers=[], other=[keyed.void(self._id)])
        key = self._table.paths.append_log(claim.t, claim.writer)
        create(self._table.store, key, codec.encode(content))

    def _published(self) -> Published | None:
        base = take_base(self._table, tolerant=True, doubled=True)
        return keyed.find(base.snapshot.other, self._digest)


def check_key(key: str) -> None:
    """Raise UsageError for a key that is no text, names nothing or is longer than anybody's."""
    given: object = key
    if not isinstance(given, str) or not is_unicode(given):
        raise UsageError(
            f"the key of the append is {key!r}, which is no text",
            next_step='name the batch by a text, as "batch-17"; nothing was written',
        )
    if not key.strip() or len(key) > _LONGEST:
        raise UsageError(
            f"a key has between 1 and {_LONGEST:,} characters, and this one {len(key):,}"
            if key.strip()
            else "the key of the append is empty",
            next_step="name the batch, as batch-17; nothing was written",
        )


def key_of_files(paths: Sequence[Path], partition: str | None) -> str:
    """Return the key of files by their names, without the folder, and their contents.

    The files are read once for this. The same in any order; other rows in another partition.

    Raises UsageError: a file cannot be read.
    """
    total = sha256((partition or "").encode())
    for name, path in sorted((path.name, path) for path in paths):
        try:
            with path.open("rb") as file:
                content = file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror}", next_step="give files of this machine"
            ) from None
        total.update(f"\0{name}\0{content}".encode())
    return f"files {total.hexdigest()}"


def _decode(key: str, data: bytes) -> _Claim:
    try:
        claim = msgspec.json.decode(data, type=_Claim)
    except codec.UNREADABLE as error:
        raise LogCorruptError(
            f"the claim {key} of an append does not read: {error}",
            next_step="restore the object from a backup, or append with another key",
        ) from None
    if claim.v != VERSION:
        raise LogCorruptError(
            f"the claim {key} of an append has format version {claim.v}, this firnline reads "
            f"version {VERSION}",
            next_step="upgrade firnline before you append with this key",
        )
    return claim
