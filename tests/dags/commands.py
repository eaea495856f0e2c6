"""Commands of `airflow`, each in a fork of one process that has imported Airflow.

A command takes seconds to import what it needs, and little to do its work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.cli import Outcome

_SHELL = """
import json, os, sys
import airflow.cli.cli_parser
import airflow.models.dagbag
import airflow.serialization.serialized_objects
from airflow.__main__ import main

for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, name in enumerate(("out", "err"), 1):
            os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["airflow", *asked["arguments"]]
        code = 1
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            import traceback
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class AirflowCommands:
    """Runs commands of `airflow` with the environment of its first one; a context manager.

    Args:
        folder: for what they print.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def run(self, arguments: Sequence[str]) -> Outcome:
        """Run one command to its end."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SHELL],
                env=os.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        out, err = self.folder / "out", self.folder / "err"
        asked = {"arguments": list(arguments), "out": str(out), "err": str(err)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(asked)}\n")
        self._process.stdin.flush()
        # Airflow may say something before, when it is imported.
        for line in self._process.stdout:
            if line.startswith("ended "):
                return Outcome(int(line.split()[1]), out.read_text(), err.read_text())
        raise AssertionError("the process that runs commands of airflow ended")
