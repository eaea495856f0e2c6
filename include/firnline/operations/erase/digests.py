"""Digests of certificates: what they cover (docs/format.md, "Chained certificates").

Keys count without the table's place, so a relocation changes no digest.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from firnline.log import relocation
from firnline.operations.erase.certificate import Certificate
from firnline.paths import TablePaths
from firnline.state.witness import CertificateWitness

_PLANNED = (
    *("version", "id", "table", "root", "columns", "keys", "digest", "run", "planned_ms"),
    *("deletes", "parts", "checked", "failed"),
)
"""What a certificate states before the commit and ever after."""
_LATER = ("clean", "covers")
"""Fields that certificates of version 2 and later add."""
_HERE = TablePaths("")


def plan_digest(certificate: Certificate, paths: TablePaths) -> str:
    """Return the SHA-256 of what was stated before the commit, hexadecimal.

    The same of the plan, of the certificate and of what completes it. Raises LogCorruptError.
    """
    plain = _plain(msgspec.json.encode(certificate), paths)
    names = _PLANNED if certificate.version == 1 else (*_PLANNED, *_LATER)
    planned = {name: plain[name] for name in names}
    planned["parts"] = [
        {name: value for name, value in part.items() if name != "gone_ms"}
        for part in planned["parts"]
    ]
    return _sha256(planned)


def whole_digest(data: bytes, paths: TablePaths) -> str:
    """Return the SHA-256 of a certificate without its own, hexadecimal. Raises LogCorruptError.

    Args:
        data: the object.
        paths: of the table.
    """
    plain = _plain(data, paths)
    plain.pop("sha256", None)
    return _sha256(plain)


def sealed(certificate: Certificate, paths: TablePaths) -> Certificate:
    """Return the certificate with its own digest."""
    return msgspec.structs.replace(
        certificate, sha256=whole_digest(msgspec.json.encode(certificate), paths)
    )


def witness(table: str, certificate: Certificate) -> CertificateWitness:
    """Return what is to be noted outside of the bucket."""
    return CertificateWitness(table, certificate.id, certificate.sha256)


def _plain(data: bytes, paths: TablePaths) -> dict[str, Any]:
    moved = relocation.move_certificate("a certificate", data, paths, _HERE)
    plain: dict[str, Any] = msgspec.json.decode(moved)
    return plain


def _sha256(plain: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()
