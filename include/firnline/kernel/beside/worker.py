"""The process of ``kernel.beside.process``: batches of groups on stdin, their results on stdout."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec

from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.beside.process import Beside
from firnline.kernel.duckdb import never
from firnline.kernel.merge import merge_in
from firnline.kernel.small import PER_KERNEL
from firnline.kernel.task import KernelResult, KernelTask
from firnline.kernel.workplace import Workplace
from firnline.parquet.footers import receive, send
from firnline.store.access import StoreAccess
from firnline.store.base import Store
from firnline.store.client import open_store


def main() -> None:
    """Merge batches until the other side ends."""
    # Ctrl-C is sent to all processes of a terminal: the one that asks decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    message = receive(sys.stdin.buffer)
    if message is None:
        return
    beside = msgspec.json.decode(message, type=Beside)
    with ExitStack() as stack, ThreadPoolExecutor(PER_KERNEL, "firnline-kernel") as pool:
        tools = _Tools(beside, stack)
        while (message := receive(sys.stdin.buffer)) is not None:
            tasks = msgspec.json.decode(message, type=list[KernelTask])
            try:
                send(answers, msgspec.json.encode(list(pool.map(tools.merge, tasks))))
            except BrokenPipeError:
                return  # whoever has asked was killed; a sweep takes what nobody commits


class _Tools(threading.local):
    """The store and the workplace of a thread."""

    def __init__(self, beside: Beside, stack: ExitStack) -> None:
        clock = SystemClock()
        access = None if beside.access is None else StoreAccess.from_json(beside.access)
        self._store: Store = open_store(beside.root, access, clock=clock)
        place = Workplace(Path(beside.scratch), SystemIds(), clock)
        self._place = stack.enter_context(closing(place))

    def merge(self, task: KernelTask) -> KernelResult:
        return merge_in(self._place, task, self._store, never)


if __name__ == "__main__":
    main()
