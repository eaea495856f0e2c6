"""What a Spark job of ours says when it fails, read from the output of spark-submit.

The job ends with one line ``{"error": {"message": …, "next_step": …, "retryable": …}}``. An exit
code could not carry that: Spark itself uses the same ones.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JobFailure:
    """Why a job failed, in one sentence."""

    sentence: str
    retryable: bool


def failure_in(line: str) -> JobFailure | None:
    """The failure that a line of output tells; None for any other line."""
    text = line.strip()
    if not text.startswith('{"error"'):
        return None
    try:
        error: Any = json.loads(text)["error"]
        return JobFailure(f"{error['message']}; {error['next_step']}", bool(error["retryable"]))
    except (ValueError, TypeError, KeyError):
        return None  # something else that looks like it
