"""For a Spark driver that is to die at one of its store calls; PYTHONPATH names this folder.

FIRNLINE_TEST_KILL_AT: ``7 before`` or ``7 after``: the process kills itself with SIGKILL right
before its eighth store call, or right after it. FIRNLINE_TEST_CALLS: a file that gets a line for
every store call. The product knows of neither: its store is wrapped as its module is imported.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


def _dying(store: object) -> object:
    """The store, with an end."""
    sys.path.insert(0, str(Path(__file__).parents[3]))  # tests
    from tests.support.world import FaultyStore

    at, _, when = os.environ.get("FIRNLINE_TEST_KILL_AT", "").partition(" ")
    calls = Path(os.environ["FIRNLINE_TEST_CALLS"])

    class Dying(FaultyStore):
        def _call(self, name: str, act: Callable[[], Any], *, put: bool = False) -> Any:
            hit = str(len(self.calls)) == at
            with calls.open("a", encoding="utf-8") as file:
                file.write(f"{name}\n")
            if hit and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return super()._call(name, act, put=put)
            finally:  # a call that is refused, as the second put of the probe, is over as well
                if hit:
                    os.kill(os.getpid(), signal.SIGKILL)

    return Dying(store)


class _Finder(importlib.abc.MetaPathFinder):
    """Changes ``firnline.table`` once it is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "firnline.table":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            open_store = module.open_store
            module.open_store = lambda *a, **k: _dying(open_store(*a, **k))  # type: ignore[attr-defined] # the module's own

        spec.loader.exec_module = exec_module  # type: ignore[method-assign] # of this one module
        return spec


# The driver alone: executors import what it imports, from an environment that may be its own.
if "FIRNLINE_TEST_CALLS" in os.environ and any("spark_jobs/" in a for a in sys.orig_argv[:2]):
    sys.meta_path.insert(0, _Finder())
