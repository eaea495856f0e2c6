"""The first wrong line of a CSV file is named by its number, and never by what it says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.operations.erase.csv_lines import wrong_line


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a,b\n1,2\n", None),
        (b"", None),
        (b"a,b\n1,2", None),
        (b"a,b\r\n1,2\r\n\r\n1\r\n", "line 4 has 1 column, and its head 2"),
        (b"a,b\r1\r", "line 2 has 1 column, and its head 2"),
        (b'a,b\n"1\n,\n",2\n1,2,3\n', "line 5 has 3 columns, and its head 2"),
        (b"a\xff,b\n1\n", "line 1 is no UTF-8"),
        (b"\xff\xfea\x00\n\x00", "line 1 is no UTF-8"),
        (b"a,b\n1,\xc3\xa4\n1,\xe4\n", "line 3 is no UTF-8"),
        (b'a,b\n1,2\n"' + b"x" * 200_000, "line 3 does not read"),
    ],
)
def test_a_line_is_named(data: bytes, said: str | None, tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    path.write_bytes(data)
    assert wrong_line(path) == said


@given(text=st.text(st.sampled_from('a,"\n\r '), max_size=20))
def test_of_what_arrow_reads_no_line_is_called_wrong(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("csv") / "k.csv"
    path.write_bytes(text.encode())
    try:
        with pacsv.open_csv(path) as opened:
            for _ in opened:
                pass
    except pa.ArrowInvalid:
        return
    assert wrong_line(path) is None
