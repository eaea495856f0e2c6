"""Parts as a certificate names them: which ones held keys, and which ones it knows to be clean.

A certificate stays for ever, and the path of a part may hold a key (a table may be partitioned by
the column of the keys). So it names a part by its file, a UUID, and states of the clean ones a
digest of the whole path: nobody erased anything from those. Certificates of version 1 have paths.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from firnline.errors import LogCorruptError
from firnline.next_steps import RESTORE_OR_MOVE
from firnline.operations.erase.certificate import Certificate
from firnline.paths import TablePaths

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.parquet")
_DIGEST_BYTES = 12
"""Of a digest: 16 characters for a part; two of a million parts are alike once in 10¹⁷ tables."""


def named(key: str) -> str:
    """Return the name of a part's file, or nothing where others than we gave a name to it."""
    name = key.rpartition("/")[2]
    return name if _UUID.fullmatch(name) else ""


def digests_text(paths: TablePaths, keys: Iterable[str]) -> str:
    """Return the digests of parts as one text."""
    return b64encode(b"".join(sorted({_digest(paths, key) for key in keys}))).decode()


def _digest(paths: TablePaths, key: str) -> bytes:
    # Without the table's place: a relocation changes none.
    return sha256(key.removeprefix(paths.data_dir).encode()).digest()[:_DIGEST_BYTES]


@dataclass(frozen=True, slots=True)
class Known:
    """The parts that certificates of the same keys state as erased, unread or clean."""

    paths: TablePaths
    own: frozenset[str]
    """Parts that held keys: paths of version 1, names of later ones."""
    failed: frozenset[str]
    """Parts that could not be read; an empty name stands for any that has no name of ours."""
    checked: frozenset[str]
    """Names of clean parts, of certificates of version 1."""
    clean: frozenset[bytes]
    """Digests of clean parts."""

    @classmethod
    def of(
        cls, paths: TablePaths, certificate: Certificate, others: Sequence[Certificate] = ()
    ) -> Known:
        """Return what certificates say.

        Args:
            paths: of the table.
            certificate: that is to be completed.
            others: of the same keys; they count for clean parts only.

        Raises LogCorruptError.
        """
        certificates = (certificate, *others)
        return cls(
            paths,
            frozenset(part.key for part in certificate.parts),
            frozenset(certificate.failed),
            frozenset(name for one in certificates if one.version == 1 for name in one.checked),
            frozenset(digest for one in certificates for digest in _digests(one)),
        )

    def is_own(self, key: str) -> bool:
        """Return True for a part that held keys."""
        return key in self.own or (named(key) or key) in self.own

    def is_failed(self, key: str) -> bool:
        """Return True for a part that the erase could not read."""
        return key in self.failed or named(key) in self.failed

    def is_clean(self, key: str) -> bool:
        """Return True for a part that held no key when the erase was planned."""
        return key.rpartition("/")[2] in self.checked or _digest(self.paths, key) in self.clean


def _digests(certificate: Certificate) -> list[bytes]:
    try:
        data = b64decode(certificate.clean, validate=True)
    except ValueError as error:
        raise LogCorruptError(
            f"certificate {certificate.id} does not read: {error}",
            next_step=RESTORE_OR_MOVE,
        ) from None
    return [data[at : at + _DIGEST_BYTES] for at in range(0, len(data), _DIGEST_BYTES)]
