"""Publications after runs: of what was committed, however the run ended, but for an interrupt."""

from __future__ import annotations

import pytest

from firnline.errors import StoppedError, StoreUnavailableError
from firnline.operations.mirror.ended import however_it_ends


@pytest.mark.parametrize(
    ("error", "published"),
    [
        (None, 1),
        (StoreUnavailableError("no answer", next_step="wait"), 1),
        (ValueError("a defect"), 1),
        (StoppedError("stopped", next_step="run it again"), 0),
        (KeyboardInterrupt(), 0),
        (SystemExit(), 0),
    ],
    ids=repr,
)
def test_a_run_that_ends_publishes_and_one_that_is_interrupted_does_not(
    error: BaseException | None, published: int
) -> None:
    done: list[str] = []

    def run() -> str:
        with however_it_ends(lambda: done.append("published")):
            if error is not None:
                raise error
            return "the report"

    if error is None:
        assert run() == "the report"
    else:
        with pytest.raises(type(error)) as raised:
            run()
        assert raised.value is error
    assert len(done) == published
