"""The cause of a failed Spark task, in one line of the many that Spark prints."""

from __future__ import annotations

import re

TASK_MEMORY = (
    "read the executor's log; if it ran out of memory, give executors 1.3 x merge.kernel_memory "
    "per task outside the JVM (spark.executor.memoryOverhead)"
)
"""The next step for a task whose process died."""
_REASONS = (
    re.compile(r"^.*(Python worker exited unexpectedly.*)$", re.MULTILINE),
    re.compile(r"^.*Reason: (.*)$", re.MULTILINE),  # a lost executor
    re.compile(r"^\s*(\w+(?:Error|Exception): \S.*)$", re.MULTILINE),  # Python's
    re.compile(r"^Caused by: (?:[\w.$]+: )?(.*)$", re.MULTILINE),
)


def reason(text: str) -> str:
    """Return the line of Spark's output that states the cause: the innermost one."""
    for pattern in _REASONS:
        found = [line.strip() for line in pattern.findall(text) if line.strip()]
        if found:
            return str(found[-1])[:300].rstrip(".:")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first[:300].rstrip(".:") or "Spark does not say why"
