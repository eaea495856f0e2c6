"""The command line in tests: in this process or as a program, and what it may not change."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from firnline.cli.app import run
from firnline.ids import SystemIds
from firnline.log import codec
from firnline.log.records import LogContent, Marker, sort_json
from firnline.paths import TablePaths
from firnline.store.probe import forget
from firnline.types.order import Order
from tests.support.programs import run_program

PROGRAM = Path(sys.executable).with_name("firnline")
START_MS = 1_769_860_800_000
"""2026-01-31 12:00:00Z."""


@dataclass(frozen=True)
class Outcome:
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error that ``--json`` printed."""
        return json.loads(self.err)["error"]

    @property
    def sentence(self) -> str:
        """The error, which is all of stderr: one line."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("firnline: "), self.err
        return lines[0].removeprefix("firnline: ")


def inside(capture: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs command lines in this process: quick, and a debugger sees them.

    As for ``program``: a variable of ``env`` that is None is unset. Every command line probes its
    store anew, as a program does.
    """

    def call(*arguments: str | Path, env: Mapping[str, str | None] | None = None) -> Outcome:
        capture.readouterr()
        forget()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (env or {}).items():
                if value is None:
                    patch.delenv(name, raising=False)
                else:
                    patch.setenv(name, value)
            code = run([str(argument) for argument in arguments])
        return Outcome(code, *capture.readouterr())

    return call


def program(*arguments: str | Path, env: Mapping[str, str | None] | None = None) -> Outcome:
    """Runs the installed program as a user does. A variable that is None is unset."""
    done = run_program([PROGRAM, *arguments], env)
    return Outcome(done.returncode, done.stdout, done.stderr)


def content_of(folder: Path) -> dict[str, str]:
    """Every file below a folder with a digest of its bytes: what a failure may not change."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@dataclass
class LogOnlyTable:
    """A ``file://`` table made of log files alone: enough for whatever reads no part."""

    folder: Path
    t: int = START_MS

    @property
    def root(self) -> str:
        return f"file://{self.folder}"

    @property
    def paths(self) -> TablePaths:
        return TablePaths(self.folder.name)

    def append(
        self,
        sizes: Mapping[str, Sequence[int]],
        *,
        rows: int | None = 10,
        schema: Mapping[str, str] | None = None,
        order: Order = (),
    ) -> Path:
        """One log file, a second after the last; ``sizes`` are those of new parts by partition."""
        self.t += 1000
        ids = SystemIds()
        markers = [
            Marker(
                p=self.paths.data_part(partition, ids.uuid7(self.t)),
                b=size,
                t=self.t,
                n=rows,
                k=sort_json(order),
            )
            for partition, found in sizes.items()
            for size in found
        ]
        columns = dict(schema or {"ts": "TIMESTAMP", "v": "INTEGER"})
        content = LogContent(t=self.t, schema=columns, markers=markers)
        key = self.paths.append_log(self.t, f"test-{ids.uuid7(self.t)}")
        path = self.folder.parent / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(codec.encode(content))
        return path


def settings_file(folder: Path, text: str) -> Path:
    """A settings file with this text."""
    path = folder / "tables.yaml"
    path.write_text(text, encoding="utf-8")
    return path
