"""Operations on the real S3 server, behind a proxy that breaks their requests."""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import botocore.config
import botocore.endpoint
import pytest

from firnline.commit.base import take_base
from firnline.errors import FirnlineError
from firnline.store import connect as backend
from firnline.store import multipart
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from firnline.store.requests import RetryPolicy
from tests.store.faultproxy import Fault, FaultProxy, Request, xml_answer
from tests.support.places import NAME, FolderPlace
from tests.support.scenarios import Call
from tests.support.sweeping import Start, come_right, committed_once, half_way, observe

PATIENCE = RetryPolicy(attempts=5, first_wait=0.01)
"""Waits are the table's clock's, which is set: they take no time."""
SILENCE = timedelta(seconds=2)
"""Longest silence in an answer while one never comes, instead of half a minute.

Only then: on a busy machine an answer that comes may take longer, and such an attempt would count
as broken beside those that the test breaks."""
EVER = 1_000_000


@dataclass(frozen=True)
class Break:
    """A way in which requests fail."""

    name: str
    fault: Fault
    answer: bytes = b""

    def __str__(self) -> str:
        return self.name

    def add(self, proxy: FaultProxy, matches: Callable[[Request], bool]) -> None:
        proxy.add(self.fault, matches, times=EVER, answer=self.answer)


PASSING = [
    Break("latency", "slow"),
    Break("slow body", "drip"),
    Break("reset before", "reset"),
    Break("reset after", "lose-answer"),
    Break("503 after the effect", "fail-after"),
    Break("503", "answer", xml_answer(503, "SlowDown")),
    Break("503 with Retry-After", "answer", xml_answer(503, "SlowDown", "Retry-After: 1")),
    Break("500", "answer", xml_answer(500, "InternalError")),
    Break("cut head", "cut-head"),
    Break("cut body", "cut-body"),
]
"""What passes: the next attempt gets through."""
SILENT = Break("silence", "stall")
"""Passes, too, and takes its time."""
LASTING = [
    Break("gone", "reset"),
    Break("answers lost", "lose-answer"),
    Break("expired, 400", "answer", xml_answer(400, "ExpiredToken")),
    Break("503 for good", "answer", xml_answer(503, "SlowDown", "Retry-After: 1")),
    Break("forbidden, 403", "answer", xml_answer(403, "AccessDenied")),
    Break("expired, 403", "answer", xml_answer(403, "ExpiredToken")),
]
"""What does not, from some request on."""


def make_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3's client is made once for each silence, gives up after it, and tries twice."""
    whole = botocore.config.Config

    def config(**given: Any) -> Any:
        return whole(**{**given, "read_timeout": backend.READ_TIMEOUT.total_seconds()})

    @functools.cache
    def made(access: StoreAccess, _silence: timedelta) -> Any:
        return create(access, 2)

    create = multipart.s3_client
    monkeypatch.setattr(botocore.config, "Config", config)
    monkeypatch.setattr(
        multipart, "s3_client", lambda access, _attempts: made(access, backend.READ_TIMEOUT)
    )
    never_waits = SimpleNamespace(sleep=lambda _seconds: None)
    monkeypatch.setattr(botocore.endpoint, "time", never_waits)  # up to a second between tries


@contextlib.contextmanager
def gives_up_silence(soon: bool) -> Iterator[None]:
    """Both clients take a connection for broken after `SILENCE`, if ``soon``."""
    with pytest.MonkeyPatch.context() as patch:
        if soon:
            patch.setattr(backend, "READ_TIMEOUT", SILENCE)
        yield


@dataclass
class Line:
    """A scenario whose runs go through a proxy."""

    start: Start
    proxy: FaultProxy
    requests: int = 0
    """Of a clean run."""

    def __post_init__(self) -> None:
        began = len(self.proxy.seen)
        self.start.scenario.run(self.through(self.start.fresh()))
        self.clean = self.proxy.seen[began:]
        self.requests = len(self.clean)

    @property
    def name(self) -> str:
        """The operation's."""
        return self.start.scenario.name

    def through(self, call: Call) -> Call:
        """The same run with all its requests through the proxy."""
        assert isinstance(self.start.place, FolderPlace)
        assert self.start.place.access is not None
        access = replace(self.start.place.access, endpoint=self.proxy.endpoint)
        table = call.table
        store = open_store(table.settings.root, access, clock=table.clock, retry=PATIENCE)
        return replace(call, table=replace(table, store=store, access=access))

    def every_request_once(self, kind: Break) -> int:
        """Break the first attempt of every request; the run must come through. Returns faults."""
        hit: Counter[tuple[str, str]] = Counter()

        def matches(request: Request) -> bool:
            what = (request.method, request.path)
            hit[what] += 1
            return hit[what] % 2 == 1  # the repetition gets through, and the same request later

        return self._comes_through(kind, matches)

    def one_request(self, kind: Break, index: int) -> int:
        """Break one request; the run must come through."""
        began = len(self.proxy.seen)
        return self._comes_through(kind, lambda _: len(self.proxy.seen) - began == index + 1)

    def _comes_through(self, kind: Break, matches: Callable[[Request], bool]) -> int:
        start, call = self.start, self.start.fresh()
        broken = self.proxy.broken.total()
        kind.add(self.proxy, matches)
        try:
            with gives_up_silence(kind is SILENT):
                start.scenario.run(self.through(call))
        finally:
            self.proxy.clear()
        assert half_way(start, call.table, came_through=True)
        committed_once(start, call.table)
        return self.proxy.broken.total() - broken

    def from_request_on(self, kind: Break, index: int) -> bool:
        """Break this and all later requests; True when the run failed, in one sentence.

        Whatever it did, the next run comes to the right end.
        """
        start, call = self.start, self.start.fresh()
        began, failed = len(self.proxy.seen), False
        kind.add(self.proxy, lambda _: len(self.proxy.seen) - began > index)
        try:
            start.scenario.run(self.through(call))
        except FirnlineError as error:
            failed = True
            self.is_one_sentence(error)
        finally:
            self.proxy.clear()
        if not failed:
            # It committed at least; when it could not publish, whoever comes next does it first.
            take_base(call.table)
        done = half_way(start, call.table, came_through=not failed)
        come_right(start, call, done=done, came_through=not failed)
        assert observe(call.table) == start.after
        return failed

    def is_one_sentence(self, error: FirnlineError) -> None:
        """It names an object, says what to do, and holds nothing of a library or a secret."""
        assert isinstance(self.start.place, FolderPlace)
        text, access = str(error), self.start.place.access
        assert access is not None
        # The table, or an object of it or beside it.
        assert NAME in text or self.start.place.url.rpartition("/")[2] in text
        assert "\n" not in text
        assert error.next_step
        assert not re.search(r"Traceback|Generic S3|reqwest|hyper|botocore|Error\(", text), text
        assert str(access.access_key) not in text
        assert str(access.secret_key) not in text

    def turns(self) -> list[int]:
        """Requests that are not of the same kind as the one before."""
        kinds = [self._kind(request) for request in self.clean]
        return [i for i, kind in enumerate(kinds) if i == 0 or kind != kinds[i - 1]]

    def commits(self) -> list[int]:
        """Create-only puts of transactions and log files."""
        return [
            index
            for index, request in enumerate(self.clean)
            if request.method == "PUT" and re.search(r"/_(?:txn|log)/", request.path)
        ]

    def _kind(self, request: Request) -> tuple[str, str]:
        folders = re.findall(r"_(?:log|data|txn|erase|probe)\b", request.path)
        return request.method, folders[0] if folders else request.path.partition("?")[2][:10]
