"""Show that a set of keys is the one of a certificate.

The digest of a certificate has a secret that was told to whoever ran the erase. Without it nobody
can try out keys, and with it and the keys anybody can show whose certificate it is. A certificate
of requests of erasure has a digest for each, of its file, with a secret that was told to whoever
handed it in.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from firnline.errors import UsageError
from firnline.operations.erase.certificate import Certificate
from firnline.operations.erase.key_files import digest_of_file, read_keys, read_request
from firnline.operations.erase.keys import KeySet
from firnline.table import Table

_SECRET = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ShownKeys:
    """What somebody shows to prove it."""

    keys_file: str
    """As of ``EraseOptions``."""
    secret: str = ""
    """As the report of the erase, or the request, told it, in any case; empty for a certificate of
    version 1."""

    @property
    def plain(self) -> str:
        """Return the secret as digests take it."""
        return self.secret.strip().lower()


def shown_keys(erase: str | None, keys_file: str | None, secret: str | None) -> ShownKeys | None:
    """Return what is shown of a certificate; None when nothing is.

    Raises UsageError: it is not said of which certificate, or a secret comes without its keys.
    Whether a certificate needs a secret is known once it is read (``proven``).
    """
    if keys_file is None and secret is None:
        return None
    if erase is None:
        raise UsageError(
            "keys and secret belong to one certificate, and its id is missing",
            next_step="name the certificate after the table, as the report of the erase does",
        )
    if keys_file is None:
        raise UsageError(
            f"the secret of certificate {erase} shows nothing without the keys",
            next_step="give the file of keys of that erase (--keys), too",
        )
    return ShownKeys(keys_file, secret or "")


def proven(
    table: Table, certificate: Certificate, schema: Mapping[str, str], shown: ShownKeys
) -> KeySet | None:
    """Return the keys of a certificate, from somebody who knows them, or those of its requests.

    None if it is shown that a request is one of the certificate's, which has more keys than those.
    Requests: for a URL a GET, and one more for a certificate of requests.

    Raises UsageError: there is no secret, the file does not read, or its keys or the secret are
    others.
    """
    secret = shown.plain
    if not secret and certificate.version > 1:
        raise UsageError(
            f"keys show nothing of certificate {certificate.id} without its secret",
            next_step="give the secret (--secret) from the report of the erase, too",
        )
    if secret and _SECRET.fullmatch(secret) is None:
        raise UsageError(
            "the secret of a certificate has 64 hexadecimal digits",
            next_step="take it from the report of the erase, or from the answer to the request",
        )
    if shown_request(table, certificate, shown) is not None:
        return _keys_of_request(table, certificate, schema, shown)
    reads = read_request if certificate.requests else read_keys
    keys = reads(table, certificate.columns, schema, shown.keys_file)
    if not hmac.compare_digest(keys.digest(secret), certificate.digest):
        raise UsageError(
            f"the keys of {shown.keys_file} with this secret are not those of certificate "
            f"{certificate.id}",
            next_step="take the file of keys and the secret of that very erase, or of one of its "
            "requests; a column that has got another type since gives an erase another digest",
        )
    return keys


def shown_request(table: Table, certificate: Certificate, shown: ShownKeys) -> str | None:
    """Return the request of a certificate whose file and secret are shown; None if it is none.

    Requests: for a URL 1 GET, if the certificate has requests. Raises UsageError: no such file.
    """
    if not certificate.requests:
        return None
    digest = digest_of_file(table, shown.keys_file, shown.plain)
    found = (each.id for each in certificate.requests if hmac.compare_digest(each.digest, digest))
    return next(found, None)


def _keys_of_request(
    table: Table, certificate: Certificate, schema: Mapping[str, str], shown: ShownKeys
) -> KeySet | None:
    """Return the keys of a request that is the only one of a certificate; None: not known.

    Those of one among others are not all: a part that holds none of them may hold others.
    """
    if len(certificate.requests) > 1:
        return None
    with suppress(UsageError):  # a column may have another name or type by now
        return read_request(table, certificate.columns, schema, shown.keys_file)
    return None
