"""Settings files that are meant to hurt: bounded work, bounded memory, one sentence with the file.

Airflow reads the file at every DAG parse, so a file that takes a minute takes the scheduler down.
No clock is needed to see that: a bomb that were followed would not end, and the error of a number
without end says that its characters were counted before it was made a number.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from firnline.errors import SettingsError
from firnline.settings.load import load_settings
from tests.support.hostile import refusal

ROOT = "root: 's3://b/t'"
FIELDS = [
    "tables: @",
    "defaults: @",
    "tables: {t: @}",
    "tables: {t: {root: @}}",
    *(
        f"tables: {{t: {{{ROOT}, {field}}}}}"
        for field in (
            "merge: @",
            "merge: {target_size: @}",
            "merge: {sql: @}",
            "merge: {min_inputs: @}",
            "cleanup: {grace: @}",
            "ttl: {keep: @}",
            "sort_by: @",
            "sort_by: [@]",
            "partition_by: [@]",
            "partition: @",
            "primary_key: @",
            "operations: [@]",
            "spark: {conf: @}",
            "alerts: @",
            "nope: @",
            "name: @",
        )
    ),
    f"defaults: {{x: @}}\ntables: {{t: {{{ROOT}, x: @}}}}",
    f"defaults: {{merge: @}}\ntables: {{t: {{{ROOT}, merge: @}}}}",
]


def refused(tmp_path: Path, text: str | bytes) -> str:
    """The error of a settings file; it does not fill a screen."""
    path = tmp_path / "tables.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    error = refusal(str(path), partial(load_settings, strict=True), path)
    assert isinstance(error, SettingsError)
    assert len(str(error)) < 10_000
    return str(error)


def lists(levels: int, text: str) -> str:
    """Lists of aliases of lists: 9 to the power of ``levels`` values."""
    lines = ["a0: &a0 [x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join([*lines, text.replace("@", f"*a{levels - 1}")])


def mappings(levels: int, text: str) -> str:
    lines = ["a0: &a0 {k: x}"]
    for n in range(1, levels):
        keys = ", ".join(f"k{i}: *a{n - 1}" for i in range(9))
        lines.append(f"a{n}: &a{n} {{{keys}}}")
    return "\n".join([*lines, text.replace("@", f"*a{levels - 1}")])


@pytest.mark.parametrize("field", FIELDS)
def test_a_billion_laughs_in_any_field_are_one_error(tmp_path: Path, field: str) -> None:
    for bomb in (lists, mappings):
        assert "more than 200,000 values" in refused(tmp_path, bomb(30, field))


@pytest.mark.parametrize("field", FIELDS)
def test_a_file_that_holds_itself_is_one_error(tmp_path: Path, field: str) -> None:
    for knot in ("a: &a [*a]", "a: &a {k: *a}", "a: &a {k: [{k: *a}]}"):
        assert "nested too deeply" in refused(tmp_path, knot + "\n" + field.replace("@", "*a"))


def test_aliases_cannot_nest_deeper_than_brackets(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3_000))]
    assert "nested too deeply" in refused(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    "number",
    [
        "9" * 5_000,
        "0x" + "f" * 100_000,
        "0b" + "1" * 100_000,
        "0" + "7" * 100_000,
        "1" + ":59" * 300_000,
        "1" + ":59" * 100_000 + ".5",
        "1." + "0" * 100_000,
        "1" + "_" * 100_000,
    ],
    ids=lambda text: text[:5],
)
def test_a_number_without_end_is_one_error(tmp_path: Path, number: str) -> None:
    for text in (f"tables: {{t: {{{ROOT}, merge: {{min_inputs: {number}}}}}}}", f"x: {number}"):
        said = refused(tmp_path, text)
        assert "line 1" in said
        assert "characters" in said


@pytest.mark.parametrize(
    "value", [".inf", "-.inf", ".nan", "1.0e+999", "2013-02-30", "-1", "!!int x"]
)
def test_numbers_and_dates_that_are_none_are_one_error(tmp_path: Path, value: str) -> None:
    refused(tmp_path, f"tables: {{t: {{{ROOT}, merge: {{min_inputs: {value}}}}}}}")


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object:os.system {}",
        "!!python/object/apply:os.system ['touch @']",
        "!!python/object/new:subprocess.Popen [['touch', '@']]",
        "!!python/name:os.system",
        "!!python/module:os",
        "!!python/tuple [1]",
        "!include /etc/passwd",
        "!env HOME",
        "!!binary 'x'",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "!!timestamp '2013-01-01'",
    ],
)
def test_a_tag_runs_nothing(tmp_path: Path, tag: str) -> None:
    canary = tmp_path / "canary"
    refused(tmp_path, f"tables: {{t: {{{ROOT}, sort_by: {tag.replace('@', str(canary))}}}}}")
    assert not canary.exists()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tables:\n  t:\n    root: a\n    root: b\n", 4),
        ("tables:\n  t: {root: a}\n  t: {root: b}\n", 3),
        ("tables: {}\ndefaults: {}\ntables: {}\n", 3),
        ("tables:\n\tt: {}\n", 2),
        ("tables:\n  t:\n  \troot: a\n", 3),
        ("d: &d {a: 1}\ntables:\n  t:\n    <<: *d\n", 4),
        ("tables:\n  t: *nowhere\n", 2),
        ("tables:\n  t: &t\n---\nx: 1\n", 3),
        ("tables: {t: 'x\n\n\n", 4),
        ("%YAML 9.9\n---\ntables: {}\n", 1),
        ('tables:\n  t: {root: "\\x"}\n', 2),
        ("tables:\n  ? {a: b}\n  : 1\n", 2),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, text: str, line: int) -> None:
    assert f"tables.yaml, line {line}," in refused(tmp_path, text)


@pytest.mark.parametrize(
    "raw",
    [
        "tables: {t: {root: 'é'}}".encode("latin-1"),
        b"\xff\xfe" + "tables: [".encode("utf-16-le"),
        b"\xfe\xff\x00",
        b"tables: \x00",
        b"tables: {t: \xed\xa0\x80}",
        b"tables: \x1b[2J",
        b"\xef\xbb\xbf\xef\xbb\xbftables: [",
        b"PAR1" + bytes(range(256)) * 8,
    ],
)
def test_bytes_that_are_no_settings_are_one_error(tmp_path: Path, raw: bytes) -> None:
    assert "\x1b" not in refused(tmp_path, raw)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "tables.yaml"
    for coded in ("utf-8-sig", "utf-16"):
        path.write_bytes(f"tables: {{t: {{{ROOT}}}}}\n".encode(coded))
        assert list(load_settings(path).tables) == ["t"]


HUGE = [b"- x\n", b"[", b"#"]


@pytest.mark.parametrize("piece", HUGE, ids=lambda piece: piece.decode().strip() or "lines")
def test_a_file_of_fifty_megabytes_is_not_read(tmp_path: Path, piece: bytes) -> None:
    assert "larger than 8 MiB" in refused(tmp_path, piece * (50 * 2**20 // len(piece)))


def test_the_largest_file_that_is_read_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "tables.yaml"
    path.write_bytes(b"tables: [" + b"x," * (4 * 2**20 - 16))
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, path], capture_output=True, text=True, check=True
    )
    megabytes, said = done.stdout.split("|", 1)
    assert "more than 200,000 values" in said
    assert int(megabytes) < 700


_MEASURE = r"""
import sys
from pathlib import Path
from firnline.errors import SettingsError
from firnline.settings.load import load_settings
from tools.memory import peak_mib
try:
    load_settings(Path(sys.argv[1]))
except SettingsError as error:
    print(peak_mib(), error, sep="|")
"""


def test_a_long_text_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    refused(tmp_path, f"tables: {{t: {{{ROOT}, merge: {{min_inputs: '{'x' * 1_000_000}'}}}}}}")
    refused(tmp_path, f"tables: {{t: {{root: 's3://{'x' * 1_000_000}'}}}}")
    refused(tmp_path, f"tables: {{? '{'x' * 1_000_000}' : {{{ROOT}}}}}")
    refused(tmp_path, f"? '{'x' * 100_000}'\n: 1")
