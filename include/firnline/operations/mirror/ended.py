"""What has committed is published however its run ended: half of a merge is in the table, too.

Light: the command line imports it before it knows whether anything is to be published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from firnline.errors import StoppedError


@contextmanager
def however_it_ends(publish: Callable[[], None]) -> Iterator[None]:
    """Publish after the block, also after one that failed; its error is raised as it is.

    Not after an interrupt: who stops a run does not wait for more, and the next publication shows
    what was committed.

    Args:
        publish: publishes if something was committed; a failure is no error of it
            (``operations.mirror.after.publish_committed``).
    """
    try:
        yield
    except StoppedError:
        raise
    except Exception:
        publish()
        raise
    publish()
