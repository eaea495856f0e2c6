"""The child process that parses footers; see ``parquet.footers``."""

from __future__ import annotations

import resource
import signal
import sys

import msgspec

from firnline.parquet.footers import (
    FooterRequest,
    FooterTask,
    FooterWanted,
    SafetyRequest,
    are_safe_here,
    parse_here,
    receive,
    send,
)

_MEMORY = 4 * 2**30
"""Bytes that it may allocate: a damaged footer may state arbitrary sizes."""


def main() -> None:
    """Answer requests until the other side ends."""
    # Ctrl-C is for the program that asks: this process ends when that one closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _prepare()
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = sys.stdout.buffer
    while (message := receive(sys.stdin.buffer)) is not None:
        request = msgspec.msgpack.decode(message, type=FooterRequest | SafetyRequest)
        if isinstance(request, SafetyRequest):
            answer: object = are_safe_here(request)
        else:
            answer = parse_here(request.task, request.wanted, request.tail)
        send(answers, msgspec.json.encode(answer))


def _prepare() -> None:
    """Parse a footer of its own, and so import what that takes before anybody waits for it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pa.BufferOutputStream()
    pq.write_table(pa.table({}), file)
    tail = file.getvalue().to_pybytes()
    parse_here(FooterTask("a file", len(tail)), FooterWanted(), tail)


if __name__ == "__main__":
    main()
