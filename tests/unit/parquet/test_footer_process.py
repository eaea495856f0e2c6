"""A damaged footer may end the process that parses it, and no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pyarrow as pa
import pytest

from firnline.parquet.footers import (
    _PROCESS,
    FooterTask,
    FooterWanted,
    parse_elsewhere,
    parse_here,
)
from tests.support.histories import parquet_bytes

WHOLE = parquet_bytes(pa.table({"id": [3, 1], "name": ["b", "a"]}))
WANTED = FooterWanted(stats=("id",))


def damaged() -> bytes:
    """One byte of the list of columns is another: Arrow aborts, with the version that we pin."""
    footer = len(WHOLE) - 8 - int.from_bytes(WHOLE[-8:-4], "little")
    return WHOLE[: footer + 20] + b"\0" + WHOLE[footer + 21 :]


def test_it_says_what_parsing_in_this_process_says() -> None:
    task = FooterTask("k", len(WHOLE))
    assert parse_elsewhere(task, WANTED, WHOLE) == parse_here(task, WANTED, WHOLE)
    cut = WHOLE[:-30] + WHOLE[-8:]
    assert parse_elsewhere(task, WANTED, cut) == parse_here(task, WANTED, cut)
    assert parse_here(task, WANTED, cut).error


@pytest.mark.long
def test_a_footer_that_makes_arrow_abort_is_an_error_and_the_next_one_is_read() -> None:
    for _ in range(2):
        facts = parse_elsewhere(FooterTask("t/bad.parquet", 1), WANTED, damaged())
        assert "t/bad.parquet has a damaged footer" in str(facts.error)
        assert "SIGABRT" in str(facts.error)
        assert facts.next_step
        assert parse_elsewhere(FooterTask("k", 1), WANTED, WHOLE).rows == 2


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_file_is_not_called_damaged_because_somebody_ended_the_process(how: int) -> None:
    """Ctrl-C at the prompt of a Python session reaches it, too."""
    assert parse_elsewhere(FooterTask("k", 1), WANTED, WHOLE).rows == 2
    running = _PROCESS._running
    assert running is not None
    os.kill(running.pid, how)
    if how == signal.SIGKILL:
        running.wait()
    facts = parse_elsewhere(FooterTask("k", 1), WANTED, WHOLE)
    assert (facts.rows, facts.error) == (2, None)
    assert (_PROCESS._running is running) == (how == signal.SIGINT)


@pytest.mark.long
def test_threads_that_get_their_first_answers_at_once_do_not_end_their_own_process() -> None:
    """Nothing is learned of the type of an answer then: msgspec does that without a lock."""
    program = """if True:
        from msgspec import _utils, json
        from firnline.parquet import footers as footer_process
        from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted

        facts = json.encode(FooterFacts(key="k", bytes=1, rows=2))

        def look(*_):
            raise SystemExit("a type is looked at")

        _utils._eval_type = look
        footer_process._PROCESS.ask = lambda message: (facts, 0)
        print(footer_process.parse_elsewhere(FooterTask("k", 1), FooterWanted(), b"").rows)
    """
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")
