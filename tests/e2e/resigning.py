"""A store that ignores create-only puts: a proxy that drops ``If-None-Match`` before an S3 server.

The header is part of the signature, so the proxy signs what it passes on with the server's keys.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tools.s3server import S3Server

_NOT_PASSED = {"authorization", "host", "if-none-match", "connection", "content-length"}


@contextmanager
def forgetful(server: S3Server) -> Iterator[str]:
    """Endpoint URL of the same objects behind a store that overwrites."""
    keys = Credentials(server.access_key, server.secret_key)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kept = {k: v for k, v in self.headers.items() if k.lower() not in _NOT_PASSED}
            signed = AWSRequest(self.command, server.endpoint + self.path, kept, body)
            S3SigV4Auth(keys, "s3", server.region).add_auth(signed)
            upstream = http.client.HTTPConnection("127.0.0.1", server.port)
            upstream.request(self.command, self.path, body, dict(signed.headers.items()))
            answer = upstream.getresponse()
            data = answer.read()
            self.send_response_only(answer.status, answer.reason)
            length = answer.headers.get("Content-Length", str(len(data)))
            for name, value in answer.headers.items():
                if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(data)
            upstream.close()

        def __getattr__(self, name: str) -> Callable[[], None]:
            if name.startswith("do_"):  # do_GET, do_PUT, …: every method alike
                return self.pass_on
            raise AttributeError(name)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Nothing: a test's output is for its failures."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}"
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
