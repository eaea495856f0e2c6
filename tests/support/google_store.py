"""A small Cloud Storage in memory: what obstore uses of Google's XML API, on a free port.

No emulator that can be installed here speaks the XML API with uploads (fake-gcs-server 1.56 does
not). This one is written after Google's documentation, and refuses a request unless its token is
signed with the key of its only service account.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

BUCKET = "firnline"


class GoogleStore:
    """The objects of one bucket, and the account that may reach them."""

    email = "maintenance@project.iam.gserviceaccount.com"

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.lock = threading.Lock()
        self.url = ""
        self.tokens: set[str] = set()
        """Every value of the Authorization header."""

    def keyfile(self, **changes: object) -> dict[str, object]:
        """Return the key of the account as the console writes it, with the emulator's URL."""
        private = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        key: dict[str, object] = {
            "type": "service_account",
            "project_id": "project",
            "private_key_id": "number-1",
            "private_key": private.decode(),
            "client_email": self.email,
            "client_id": "1",
            "token_uri": "https://oauth2.googleapis.com/token",
            "gcs_base_url": self.url,
        }
        return {name: value for name, value in (key | changes).items() if value is not None}

    def is_valid(self, header: str) -> bool:
        """Return True for a bearer token of the account."""
        self.tokens.add(header)
        try:
            claims = jwt.decode(
                header.removeprefix("Bearer "), self._key.public_key(), algorithms=["RS256"]
            )
        except jwt.PyJWTError:
            return False
        return bool(claims["iss"] == self.email)


class _Handler(BaseHTTPRequestHandler):
    store: ClassVar[GoogleStore]
    protocol_version = "HTTP/1.1"

    def _dispatch(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        if not self.store.is_valid(self.headers.get("Authorization", "")):
            self._answer(401, b"<Error><Code>AuthenticationRequired</Code></Error>")
        elif bucket != BUCKET:
            self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        else:
            with self.store.lock:
                getattr(self, f"_{self.command.lower()}")(key, query, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _dispatch  # noqa: N815 -- their names

    def _put(self, key: str, query: dict[str, str], body: bytes) -> None:
        objects = self.store.objects
        if "uploadId" in query:
            self.store.uploads[query["uploadId"]][int(query["partNumber"])] = body
        elif source := unquote(self.headers.get("x-goog-copy-source") or ""):
            if (found := objects.get(source.partition("/")[2])) is None:
                return self._missing()
            objects[key] = found
        elif self.headers.get("x-goog-if-generation-match") == "0" and key in objects:
            return self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            objects[key] = body
        return self._answer(200)

    def _post(self, key: str, query: dict[str, str], _body: bytes) -> None:
        if "uploads" in query:
            upload = secrets.token_hex(8)
            self.store.uploads[upload] = {}
            name = "InitiateMultipartUploadResult"
            text = f"<{name}><UploadId>{upload}</UploadId></{name}>"
        else:
            parts = self.store.uploads.pop(query["uploadId"])
            self.store.objects[key] = b"".join(parts[number] for number in sorted(parts))
            text = '<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>'
        self._answer(200, text.encode())

    def _get(self, key: str, query: dict[str, str], _body: bytes) -> None:
        if not key:
            return self._answer(200, self._listing(query))
        if (data := self.store.objects.get(key)) is None:
            return self._missing()
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if span is None:
            return self._answer(200, data)
        first, last = int(span[1]), min(int(span[2] or len(data)), len(data) - 1)
        if first >= len(data):
            return self._answer(416)
        return self._answer(
            206, data[first : last + 1], {"Content-Range": f"bytes {first}-{last}/{len(data)}"}
        )

    _head = _get

    def _delete(self, key: str, _query: dict[str, str], _body: bytes) -> None:
        if self.store.objects.pop(key, None) is None:
            return self._missing()
        return self._answer(204)

    def _missing(self) -> None:
        self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def _listing(self, query: dict[str, str]) -> bytes:
        after = query.get("continuation-token") or query.get("start-after", "")
        prefix, most = query.get("prefix", ""), int(query.get("max-keys", "1000"))
        keys = sorted(key for key in self.store.objects if key.startswith(prefix) and key > after)
        if delimiter := query.get("delimiter"):
            return self._folders(prefix, delimiter, keys)
        more = ""
        if len(keys) > most:
            more = f"<NextContinuationToken>{escape(keys[most - 1])}</NextContinuationToken>"
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.store.objects[key])}</Size>"
            '<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"e"</ETag></Contents>'
            for key in keys[:most]
        )
        return f"<ListBucketResult>{rows}{more}</ListBucketResult>".encode()

    def _folders(self, prefix: str, delimiter: str, keys: list[str]) -> bytes:
        """Answer with the folders right below a prefix, and its own objects, in one page."""
        rest = [key.removeprefix(prefix).partition(delimiter) for key in keys]
        folders = sorted({f"{prefix}{name}{mark}" for name, mark, _ in rest if mark})
        own = [f"{prefix}{name}" for name, mark, _ in rest if not mark]
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.store.objects[key])}</Size>"
            '<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"e"</ETag></Contents>'
            for key in own
        )
        rows += "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders
        )
        return f"<ListBucketResult>{rows}</ListBucketResult>".encode()

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        given = {"ETag": '"e"', "Last-Modified": formatdate(usegmt=True), **(headers or {})}
        for name, value in given.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def google_store() -> Iterator[GoogleStore]:
    """Run one on a free port."""
    store = GoogleStore()
    handler = type("Handler", (_Handler,), {"store": store})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        store.url = f"http://127.0.0.1:{server.server_port}"
        yield store
        server.shutdown()
        thread.join()


def as_text(keyfile: dict[str, object]) -> str:
    """Return the key as JSON, as a file has it."""
    return json.dumps(keyfile, indent=2)
