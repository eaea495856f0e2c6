"""What one door of an operation does or refuses, all of its doors do or refuse.

The command line, Python, the task of a DAG and the Spark job are given the same options for the
same table. What came of it is compared: rows, transactions, and the sentence of a refusal.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline
from firnline.airflow.merge import MergeWork
from firnline.airflow.prepared import ASSERT
from firnline.airflow.rewrite import RewriteWork
from firnline.airflow.update import UpdateWork
from firnline.airflow.work import InTaskWork, SparkWork, Work
from firnline.airflow.works import (
    CleanupWork,
    DeleteWork,
    RebuildWork,
    ReplaceWork,
    RestoreWork,
    TtlWork,
    VerifyWork,
)
from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError
from firnline.log.txn_file import RunIdentity, TxnHeader
from firnline.operations import registry
from firnline.operations.fields import OptionField, option_fields
from firnline.operations.local import local_engine
from firnline.operations.operation import About, decided
from firnline.operations.operation import Work as OperationWork
from firnline.operations.options import RewriteOptions
from firnline.operations.registry import DAGS, OPERATIONS
from firnline.plain_values import plain
from firnline.spark.job import Job, _Spark
from firnline.store.probe import forget
from firnline.table import Table
from tests.doors.cases import CASES, ELSEWHERE, NOWHERE, OTHERWISE, SPELLED, UNSEEN, Given
from tests.support.cli import inside
from tests.support.on_store import merge, opened
from tools.s3server import StoreRoot

ABOUT: Mapping[str, About[Any, Any, Any]] = {each.name: each for each in OPERATIONS}
WORKS: Mapping[str, Work[Any]] = {
    "merge": MergeWork(),
    "cleanup": CleanupWork(),
    "ttl": TtlWork(),
    "rewrite": RewriteWork(),
    "update": UpdateWork(),
    "delete": DeleteWork(),
    "replace": ReplaceWork(),
    "restore": RestoreWork(),
    "verify": VerifyWork(),
    "rebuild": RebuildWork(),
}
"""Works whose options come from the form; the others ask a person in a task of their own."""
FUNCTIONS = {"import_folder": "import_files"}
"""Function of an operation that has not the operation's name."""
FORM_NAMES = {"assertions": ASSERT}
OLD = 86_400_000
"""Unix milliseconds: the second day of 1970."""


@dataclass(frozen=True)
class Outcome:
    """What became of the table, or why nothing did."""

    refusal: str
    """Message of the error; empty without one."""
    rows: tuple[tuple[int, int], ...]
    history: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    """Name and counts of rows of each transaction."""


Door = Callable[["Player", Given], None]
"""Does it, or raises FirnlineError."""


@dataclass
class Player:
    """A table of its own for each door."""

    about: About[Any, Any, Any]
    folder: Path
    table: Table
    command: Callable[..., Any]
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]

    @property
    def kind(self) -> type[msgspec.Struct]:
        kind: type[msgspec.Struct] = self.about.options
        return kind

    @property
    def name(self) -> str:
        return self.table.settings.name

    def field(self, name: str) -> OptionField | None:
        fields = {field.name: field for field in option_fields(self.kind)}
        return fields.get(name)

    def options(self, given: Given) -> Any:
        """As a person writes them in Python: sizes and times may be text."""
        return self.kind(**given)


def rows(days: list[int], values: list[int]) -> pa.Table:
    """Those of partition ``d=1`` are older than the table keeps them."""
    times = [OLD if day == 1 else SystemClock().now_ms() for day in days]
    return pa.table({"d": days, "x": values, "ts": pa.array(times, pa.timestamp("ms"))})


SETTINGS: Mapping[str, Any] = {
    "partition_by": ["d"],
    "sort_by": ["x"],
    "ttl": {"keep": "90d", "column": "ts"},
    "merge": {"min_inputs": 2},
}


def table_in(folder: Path) -> Table:
    return opened(StoreRoot("file", f"file://{folder}/tables", {}), **SETTINGS)


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions, four appends, and a merge of the first two of them, to be copied."""
    folder = tmp_path_factory.mktemp("laid")
    table = table_in(folder)
    for number in range(4):
        Appender(table).append(rows([1, 2], [number, number]))
        if number == 1:
            merge(table, folder / "scratch")
    pq.write_table(rows([1], [1]), folder / "rows.parquet")
    (folder / "keys.csv").write_text("x\n1\n")
    for place in ("foreign/d=1", "foreign/d=2", "bad"):
        (folder / "tables" / place).mkdir(parents=True)
        pq.write_table(rows([1], [7]).drop(["d"]), folder / "tables" / place / "a.parquet")
    (folder / "tables" / "foreign" / "notes.txt").write_text("of somebody else")
    (folder / "tables" / "bad" / "b.parquet").write_bytes(b"PAR1 but not more PAR1")
    return folder


def build(folder: Path, laid_out: Path) -> Table:
    """A copy of the table, and settings that name it."""
    shutil.copytree(laid_out, folder)
    table = table_in(folder)
    declared = {"tables": {"t": {"root": table.settings.root, **SETTINGS}}}
    (folder / "tables.yaml").write_text(json.dumps(declared))
    return table


def filled(value: Any, folder: Path) -> Any:
    """Return a value of a case with the names of the files that it is about."""
    names = {"folder": folder, "rows": folder / "rows.parquet", "keys": folder / "keys.csv"}
    if isinstance(value, str) and "{" in value:
        return value.format(**names)
    return [filled(each, folder) for each in value] if isinstance(value, list) else value


# --- doors ----------------------------------------------------------------------------------------


def by_command(player: Player, given: Given) -> None:
    line: list[str] = [*player.about.command.split(), player.name]
    for name, value in given.items():
        field = player.field(name)
        if name == "partitions" and player.about.name == "drop":
            line += value
        elif name == "dry_run" and player.about.name == "sweep":
            continue
        elif name == "keys" and field is None:
            line += [flag for key in value for flag in ("--key", str(key[0]))]
        else:
            assert field is not None or name == "dry_run", name
            line += ["--dry-run"] if field is None else on_a_line(field, value)
    if player.about.name == "sweep" and not given.get("dry_run"):
        line.append("--delete")
    asks_or_changes = player.about.name not in {"verify", "sweep"}
    done = player.command(*line, "--json", *["--yes"] * asks_or_changes)
    if done.code == 0 and '"nothing_to_do": true' in done.out:
        raise FirnlineError(json.loads(done.out)["message"], next_step="")
    if done.err and done.code:
        error = done.error
        raise FirnlineError(error["message"], next_step="")


def on_a_line(field: OptionField, value: Any) -> list[str]:
    if field.kind == "flag":
        return [field.flag] * bool(value)
    if field.kind == "choice":
        return [f"--{value}"]
    values = value if isinstance(value, list) else [value]
    if isinstance(value, Mapping):
        values = [f"{name}={each}" for name, each in value.items()]
    if field.option.argument:
        return [str(each) for each in values]
    return [part for each in values for part in (field.flag, str(each))]


def by_python(player: Player, given: Given) -> None:
    options = player.options(given)
    name = FUNCTIONS.get(player.about.name, player.about.name)
    doing = getattr(firnline, f"plan_{name}" if given.get("dry_run") else name)
    doing(player.name, options)


def by_operation(player: Player, given: Given) -> None:
    """What Python and the others call: of operations that have no function of their own."""
    operation, options = player.about.load(), player.options(given)
    work = OperationWork(
        player.table, RunIdentity(), lambda: local_engine(player.table), consent=decided
    )
    operation.judge(operation.run(work, options))


def by_job(player: Player, given: Given) -> None:
    run_job(player, json.dumps(given))


def run_job(player: Player, options: str) -> None:
    player.patch.setattr(_Spark, "engine", lambda _: local_engine(player.table))
    player.patch.setattr("firnline.spark.footers.footers_by", lambda _: None)
    player.capture.readouterr()
    if Job(player.about).main([player.name, "--run-id=r", f"--options={options}"]):
        error = json.loads(player.capture.readouterr().err.splitlines()[-1])["error"]
        raise FirnlineError(error["message"], next_step="")


def by_task(player: Player, given: Given) -> None:
    work = WORKS[player.about.name]
    params = {name: param.value for name, param in work.params().items()}
    for name, value in given.items():
        if name != "dry_run":
            params[FORM_NAMES.get(name, name)] = value
    options = work.options(params, dry_run=bool(given.get("dry_run")))
    if not work.about.only_looks:
        work.preview(player.table, options)
    if isinstance(work, SparkWork):
        run_job(player, work.job_options(options))
        return
    assert isinstance(work, InTaskWork)
    work.verdict(work.run(player.table, options, RunIdentity(), lambda _: None))


DOORS: Mapping[str, Door] = {
    "command": by_command,
    "python": by_python,
    "operation": by_operation,
    "job": by_job,
    "task": by_task,
}


def doors_of(name: str, given: Given) -> list[str]:
    """Return the doors at which these fields can be given."""
    doors = ["command", "operation"]
    doors += ["python"] * (FUNCTIONS.get(name, name) in firnline.__all__)
    doors += ["job"] * (name in {each.name for each in DAGS if each.job} | {"verify"})
    if name in WORKS:
        in_form = {"dry_run", *WORKS[name].params()}
        doors += ["task"] * ({FORM_NAMES.get(each, each) for each in given} <= in_form)
    return [door for door in doors if door not in OTHERWISE.get((name, str(given)), ())]


def played() -> Iterator[tuple[str, int]]:
    for name, cases in CASES.items():
        for number in range(len(cases)):
            yield name, number


@pytest.mark.parametrize(("name", "number"), list(played()))
def test_all_doors_do_the_same_or_refuse_it_alike(
    name: str,
    number: int,
    laid_out: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = {}
    for door in doors_of(name, CASES[name][number]):
        folder = tmp_path / door
        given = {key: filled(value, folder) for key, value in CASES[name][number].items()}
        forget()
        with monkeypatch.context() as patch:
            patch.setenv("FIRNLINE_TABLES", str(folder / "tables.yaml"))
            player = Player(
                ABOUT[name], folder, build(folder, laid_out), inside(capsys), patch, capsys
            )
            outcomes[door] = outcome(player, DOORS[door], given)
    first = outcomes.pop("operation")
    assert [f"{door}: {each}" for door, each in outcomes.items() if each != first] == [], first


BEGINNING = {"sweep", "rebuild", "verify", "relocate", "import_folder", "drop_table"}
"""Operations that also work where there is no table."""


@pytest.mark.parametrize("name", sorted(name for name in CASES if name not in ELSEWHERE))
def test_a_root_without_a_table_is_refused_at_every_door(
    name: str,
    tmp_path: Path,
    laid_out: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = NOWHERE.get(name, CASES[name][0])
    folder = tmp_path / "there"
    table = build(folder, laid_out)
    missing = f"{table.settings.root}/none"
    text = (folder / "tables.yaml").read_text()
    (folder / "tables.yaml").write_text(text.replace(table.settings.root, missing))
    monkeypatch.setenv("FIRNLINE_TABLES", str(folder / "tables.yaml"))
    found = firnline.open_table("t")
    refusals = {}
    for door in doors_of(name, given):
        with monkeypatch.context() as patch:
            player = Player(ABOUT[name], folder, found, inside(capsys), patch, capsys)
            refusals[door] = ""
            try:
                DOORS[door](player, given)
            except FirnlineError as error:
                refusals[door] = error.message
    there_is_none = f"there is no table at {missing}: it has no log file"
    assert ABOUT[name].begins == (name in BEGINNING)
    if name not in BEGINNING:
        assert refusals == dict.fromkeys(refusals, there_is_none)
        assert not Path(missing.removeprefix("file://"), "_log").exists()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("merge", {"partitions": np.array(["d=1"])}),
        ("merge", {"partitions": pd.Series(["d=1"]), "max_bytes": np.int64(1)}),
        ("drop", {"partitions": [np.str_("d=1")]}),
        ("restore", {"to": np.int64(0), "partitions": pa.array(["d=1"])}),
        ("erase", {"columns": np.array(["x"]), "keys": np.array([1])}),
        ("erase", {"columns": ["x"], "keys": [np.int64(1)]}),
        ("rewrite", {"where": np.str_("x <> 1"), "prepare": np.bool_(True)}),
    ],
)
def test_values_of_other_libraries_do_what_plain_ones_do(
    name: str,
    given: Given,
    tmp_path: Path,
    laid_out: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = []
    for number, fields in enumerate((given, {key: plain(each) for key, each in given.items()})):
        folder = tmp_path / str(number)
        with monkeypatch.context() as patch:
            patch.setenv("FIRNLINE_TABLES", str(folder / "tables.yaml"))
            player = Player(
                ABOUT[name], folder, build(folder, laid_out), inside(capsys), patch, capsys
            )
            outcomes.append(outcome(player, by_python, fields))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].refusal == ""


@pytest.mark.parametrize(("name", "given", "line"), SPELLED, ids=lambda each: str(each)[:40])
def test_a_command_with_words_of_its_own_does_as_its_operation(
    name: str,
    given: Given,
    line: Sequence[str],
    laid_out: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    about: About[Any, Any, Any] = getattr(registry, name)
    outcomes = []
    for door in ("operation", "command"):
        folder = tmp_path / door
        with monkeypatch.context() as patch:
            patch.setenv("FIRNLINE_TABLES", str(folder / "tables.yaml"))
            player = Player(about, folder, build(folder, laid_out), inside(capsys), patch, capsys)
            prepared = firnline.rewrite(player.name, RewriteOptions(where="x <> 1", prepare=True))
            names = {
                "target": f"file://{folder}/tables/clone",
                "change": str(prepared.to_json()["id"]),
            }
            words = [filled_in(word, names) for word in line]
            text = filled_in(msgspec.json.encode(given).decode(), names)
            doing = partial(by_words, words=words) if door == "command" else partial(by_text, text)
            result = outcome(player, doing, names)
            made = (folder / "tables" / "clone" / "_log").exists()
            outcomes.append((result, made and firnline.scan(names["target"]).count()))
    assert outcomes[0] == outcomes[1]


def filled_in(text: str, names: Given) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def by_words(player: Player, _: Given, words: Sequence[str]) -> None:
    done = player.command(*words, "--json", *["--yes"] * bool(player.about.asks))
    if done.code and done.err:
        raise FirnlineError(done.error["message"], next_step="")


def by_text(text: str, player: Player, names: Given) -> None:
    work = OperationWork(
        player.table,
        RunIdentity(),
        lambda: local_engine(player.table),
        target=firnline.open_table(names["target"]),
        consent=decided,
    )
    player.about.load().run(work, msgspec.json.decode(text, type=player.about.options))


def outcome(player: Player, door: Door, given: Given) -> Outcome:
    refusal = ""
    try:
        door(player, given)
    except FirnlineError as error:
        refusal = error.message.replace(str(player.folder), "FOLDER")
    table = opened_again(player)
    rows = firnline.scan(table).to_arrow().to_pylist()
    history = tuple(
        (header.op, tuple(sorted(item for item in counts(header) if "bytes" not in item[0])))
        for header in firnline.history(table, 50)
    )
    return Outcome(refusal, tuple(sorted((row["d"], row["x"]) for row in rows)), history)


def counts(header: TxnHeader) -> Iterable[tuple[str, int]]:
    plain: dict[str, int] = msgspec.to_builtins(header.counts)
    return plain.items()


def opened_again(player: Player) -> Table:
    return firnline.open_table(player.name)


def test_each_field_of_every_operation_is_in_a_case() -> None:
    assert set(CASES) == {each.name for each in OPERATIONS}
    for name, about in ABOUT.items():
        if name in ELSEWHERE:
            continue
        used = {field for case in CASES[name] for field in case}
        fields = {field.name for field in msgspec.structs.fields(about.options)}
        assert fields - used == UNSEEN.get(name, frozenset()), name
