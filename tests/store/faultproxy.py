"""A TCP proxy before a server that breaks chosen requests in chosen ways, exactly so often.

Requests pass byte for byte, so their signatures stay valid. What it saw is the independent witness
for request counts.
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Literal, Self

Fault = Literal[
    "reset",  # the connection breaks before the request reaches the server
    "lose-answer",  # the request has its effect, then the connection breaks
    "fail-after",  # the request has its effect, then the answer is 503, or the test's own
    "cut-head",  # the answer breaks off inside its headers
    "cut-body",  # the answer states its full length, and breaks off half-way
    "stall",  # no answer ever comes
    "slow",  # the answer comes late
    "drip",  # the answer comes in small pieces, each a little late
    "answer",  # an answer of the test's own, the server is not asked
]

LATE_S = 0.002
"""Later than the rest of an answer, which is all that a client can tell of lateness."""
PIECES = 4


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    """Path and query."""
    raw: bytes
    body: bytes


@dataclass(slots=True)
class Rule:
    """A fault for the next ``times`` requests that it matches."""

    fault: Fault
    matches: Callable[[Request], bool]
    times: int
    answer: Callable[[Request], bytes]


def xml_answer(status: int, code: str, header: str = "") -> bytes:
    """An S3 error answer."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    return whole_answer(status, body, header)


def whole_answer(status: int, body: bytes, header: str = "") -> bytes:
    """Any answer; ``header`` is one more line of its head."""
    reason = http.client.responses[status]
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Length: {len(body)}\r\n"
    head += f"{header}\r\n" if header else ""
    return head.encode() + b"Content-Type: application/xml\r\n\r\n" + body


class FaultProxy:
    """Listens on a free port of the loopback interface; a context manager."""

    def __init__(self, target_port: int) -> None:
        self.seen: list[Request] = []
        self.broken: Counter[Fault] = Counter()
        """Faults that happened."""
        self._target = target_port
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._open: set[socket.socket] = set()
        self._stop = threading.Event()

    @property
    def endpoint(self) -> str:
        port: int = self._server.getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def count(self, method: str) -> int:
        """Requests seen of this method."""
        return sum(request.method == method for request in self.seen)

    def add(
        self,
        fault: Fault,
        matches: Callable[[Request], bool] = lambda _: True,
        *,
        times: int = 1,
        answer: bytes | Callable[[Request], bytes] = b"",
    ) -> None:
        """Break the next ``times`` requests that match; rules are used up in order."""
        given = answer if callable(answer) else lambda _: answer
        with self._lock:
            self._rules.append(Rule(fault, matches, times, given))

    def clear(self) -> None:
        """Break nothing more."""
        with self._lock:
            self._rules.clear()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._server.close()
        with self._lock:
            for client in self._open:
                client.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                client, _ = self._server.accept()
            except OSError:
                return  # closed
            with self._lock:
                self._open.add(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client.makefile("rb") as stream:
                while (request := _read_request(stream)) is not None:
                    if not self._handle(client, request):
                        return
        except OSError:
            pass  # the client went away, which is its right
        finally:
            with self._lock:
                self._open.discard(client)
            client.close()

    def _handle(self, client: socket.socket, request: Request) -> bool:
        """Answer one request; False when the connection is to be closed."""
        rule = self._take(request)
        fault = None if rule is None else rule.fault
        if fault == "reset":
            return _reset(client)
        if fault == "stall":
            self._stop.wait()
            return False
        if rule is not None and fault == "answer":
            client.sendall(rule.answer(request))
            return True
        head, body = self._forward(request)
        if rule is not None and fault == "fail-after":
            client.sendall(rule.answer(request) or xml_answer(503, "SlowDown"))
            return True
        return _answer(client, fault, head, body)

    def _take(self, request: Request) -> Rule | None:
        with self._lock:
            self.seen.append(request)
            for rule in self._rules:
                if rule.times > 0 and rule.matches(request):
                    rule.times -= 1
                    self.broken[rule.fault] += 1
                    return rule
        return None

    def _forward(self, request: Request) -> tuple[bytes, bytes]:
        with socket.create_connection(("127.0.0.1", self._target)) as upstream:
            upstream.sendall(request.raw)
            answer = http.client.HTTPResponse(upstream, method=request.method)
            answer.begin()
            body = answer.read()
        kept = [
            f"{name}: {value}\r\n"
            for name, value in answer.getheaders()
            if name.lower() not in {"transfer-encoding", "connection", "content-length"}
        ]
        # The length of what HEAD would give is in its own header.
        length = answer.getheader("Content-Length") if request.method == "HEAD" else str(len(body))
        kept.append(f"Content-Length: {length or 0}\r\n")
        return f"HTTP/1.1 {answer.status} {answer.reason}\r\n{''.join(kept)}\r\n".encode(), body


def _answer(client: socket.socket, fault: Fault | None, head: bytes, body: bytes) -> bool:
    """Give the server's answer back, in the way of the fault; False to close the connection."""
    if fault == "lose-answer":
        return _reset(client)
    if fault == "cut-head":
        client.sendall(head[: head.index(b"\r\n") + 9])
        return False
    if fault == "cut-body":
        client.sendall(head + body[: len(body) // 2])
        return False
    if fault == "slow":
        time.sleep(LATE_S)
    if fault == "drip":
        for begin in range(0, len(body), len(body) // PIECES + 1):
            client.sendall(head + body[begin : begin + len(body) // PIECES + 1])
            head = b""
            time.sleep(LATE_S)
        body = b""
    client.sendall(head + body)
    return True


def _reset(client: socket.socket) -> bool:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    return False


def _read_request(stream: BinaryIO) -> Request | None:
    first = stream.readline()
    if not first:
        return None
    head, length = first, 0
    while (line := stream.readline()) not in {b"\r\n", b""}:
        head += line
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    body = stream.read(length)
    method, path, _ = first.decode("latin-1").split(" ", 2)
    return Request(method, path, head + b"\r\n" + body, body)
