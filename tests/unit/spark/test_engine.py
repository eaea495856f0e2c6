from __future__ import annotations

import pytest

from firnline.spark.engine import reason


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'Job aborted\nCaused by: java.io.IOException: Cannot run program "py"\n\tat x.y(z)\n',
            'Cannot run program "py"',
        ),
        # Spark's message begins with an empty line when the Python worker cannot start.
        (
            (
                "Job aborted due to stage failure:\nCaused by: org.apache.spark.SparkException: \n"
                "Bad data in pyspark.daemon's standard output. Invalid port number:\n  1298229349\n"
            ),
            "Job aborted due to stage failure",
        ),
        ("x\nReason: \nReason: Executor heartbeat timed out.\n", "Executor heartbeat timed out"),
        ("\n  \nsomething else\n", "something else"),
        ("", "Spark does not say why"),
    ],
)
def test_of_sparks_many_lines_one_that_says_something_is_told(said: str, told: str) -> None:
    assert reason(said) == told
