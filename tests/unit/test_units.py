from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from firnline.errors import UsageError
from firnline.settings.fields import Duration, Size
from firnline.units import (
    DURATION_UNITS,
    MAX_VALUE,
    SIZE_UNITS,
    about_duration,
    about_size,
    counted,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MiB", 512 * 2**20),
        ("1.5GB", 1_500_000_000),
        ("0.5KiB", 512),
        (" 3 gib ", 3 * 2**30),
        ("100", 100),
        (100, 100),
        (100.0, 100),
        ("0", 0),
        ("7B", 7),
    ],
)
def test_sizes_are_read_as_people_write_them(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("90d", 90 * 86_400_000),
        ("24h", 86_400_000),
        ("30m", 1_800_000),
        ("10s", 10_000),
        ("500ms", 500),
        ("2w", 14 * 86_400_000),
        ("1.5h", 5_400_000),
        (0, 0),
        ("0", 0),
    ],
)
def test_durations_are_read_as_people_write_them(text: object, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "",
        "MiB",
        "-1MiB",
        "1 2MiB",
        "1e9",
        "512MB2",
        "0.3B",
        True,
        None,
        [1],
        "9" * 21,
        2**63,
        "٣KB",
    ],
)
def test_what_is_no_size_is_refused_in_one_sentence(text: object) -> None:
    with pytest.raises(UsageError, match="512MiB") as raised:
        parse_size(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["", "10", 10, "d", "-1d", "1M", "1month", "1h30m", "0.3ms", False, None, "inf", "1H"]
)
def test_what_is_no_duration_is_refused_in_one_sentence(text: object) -> None:
    with pytest.raises(UsageError, match="ms, s, m, h") as raised:
        parse_duration(text)
    assert "\n" not in str(raised.value)


@given(st.integers(0, MAX_VALUE))
def test_a_written_size_reads_back_as_the_same_bytes(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(0, 2**20), st.sampled_from(sorted(SIZE_UNITS)))
def test_a_size_in_whole_units_is_written_without_a_loss(count: int, unit: str) -> None:
    size = parse_size(f"{count}{unit}")
    assert parse_size(format_size(size)) == size == count * SIZE_UNITS[unit]


@given(st.integers(0, MAX_VALUE))
def test_a_written_duration_reads_back_as_the_same_milliseconds(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@pytest.mark.long
@given(st.integers(1, 10_000), st.sampled_from(sorted(DURATION_UNITS)))
def test_a_duration_in_whole_units_is_written_without_a_loss(count: int, unit: str) -> None:
    milliseconds = parse_duration(f"{count}{unit}")
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert 0 <= parse_size(text) <= MAX_VALUE


@pytest.mark.parametrize(
    ("size", "text"),
    [(512 * 2**20, "512MiB"), (1_500_000_000, "1500MB"), (2**30, "1GiB"), (7, "7B"), (0, "0B")],
)
def test_a_size_is_written_in_the_largest_unit_that_is_exact(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(86_400_000, "1d"), (1_209_600_000, "14d"), (5_400_000, "90m"), (1_500, "1500ms"), (0, "0s")],
)
def test_a_duration_is_written_in_the_largest_unit_that_is_exact(
    milliseconds: int, text: str
) -> None:
    assert format_duration(milliseconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (353_283_113, "336.9 MiB"),
        (2**20 - 1, "1.0 MiB"),
        (2**60, "1048576.0 TiB"),
    ],
)
def test_a_screen_shows_sizes_rounded(size: int, text: str) -> None:
    assert about_size(size) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (12, "12ms"),
        (1_500, "1.5s"),
        (60_000, "1m"),
        (83_000, "1m 23s"),
        (5_025_000, "1h 23m"),
        (90_000_000, "1d 1h"),
        (-60_000, "-1m"),
    ],
)
def test_a_screen_shows_durations_in_two_units_at_most(milliseconds: int, text: str) -> None:
    assert about_duration(milliseconds) == text


def test_pydantic_reads_units_and_writes_them_in_json() -> None:
    assert TypeAdapter(Size).validate_python("1KiB") == 1024
    assert TypeAdapter(Size).dump_json(1024) == b'"1KiB"'
    assert TypeAdapter(Duration).dump_python(1_000) == 1_000
    assert TypeAdapter(Duration).dump_json(1_000) == b'"1s"'
    with pytest.raises(ValidationError, match="512MiB"):
        TypeAdapter(Size).validate_python("x")


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 parts"), (1, "1 part"), (2, "2 parts"), (2000, "2,000 parts"), (None, "? parts")],
)
def test_one_of_a_kind_is_no_plural(count: int | None, said: str) -> None:
    assert counted(count, "part") == said
