"""Something that runs beside what uses it, such as a server; with the standard library alone."""

from __future__ import annotations

import signal
import subprocess
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Service(ABC):
    """Something that runs between ``start`` and ``stop``; a context manager."""

    @abstractmethod
    def start(self) -> Self:
        """Start it, and wait until it answers."""

    @abstractmethod
    def stop(self) -> None:
        """End it, also when it was not started or only in part."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def end(
    process: subprocess.Popen[bytes], seconds: float, number: signal.Signals = signal.SIGTERM
) -> None:
    """Send one program a signal and wait until it is gone; SIGKILL follows after ``seconds``."""
    process.send_signal(number)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
