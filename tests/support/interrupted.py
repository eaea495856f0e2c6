"""An operation that Ctrl-C ends as soon as it begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firnline.operations.operation import AnyDag


def interrupt(about: AnyDag, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs of an operation interrupted, whichever door starts them."""

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{about.module}.{about.attribute}", replace(about.load(), act=stopped))
