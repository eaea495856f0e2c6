"""The one rule of when new objects may be deleted after a failure.

New parts are uploaded first and named by one create-only put afterwards: a transaction, or the log
file of an append or import. Until that put is sent nobody can know of them, and whatever ends the
run may delete them: an error, Ctrl-C, a signal, a lack of memory, a cancelled thread. From the
moment it may have been sent they may be live parts. They are then deleted only where it is certain
that the put had no effect (a rival's object stands under its key, the store refused it in clear
words); everything else leaves them alone, and the orphan sweep decides once it can be known.

That is not asked of the exception, of which a list would never be complete, but of the put:
``store.create.Attempt`` is set before the put is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from firnline.errors import FirnlineError, InvariantError
from firnline.store.create import Attempt
from firnline.table import Table

_LOG = logging.getLogger(__name__)


class Outputs:
    """New objects that wait for the put that names them.

    with Outputs(table, keys) as new:
        ...  # upload them; new.add(key) before each upload that is not known beforehand
        commit(table, base, change, run, new.attempt)

    Args:
        table: the table.
        keys: of the objects, whether they are uploaded already or not.
        attempt: of a put that names other objects, too; None: a new one.
    """

    def __init__(
        self, table: Table, keys: Iterable[str] = (), attempt: Attempt | None = None
    ) -> None:
        self.attempt = attempt or Attempt()
        """What to hand to the put: whether it may have taken effect."""
        self._table = table
        self._keys = dict.fromkeys(keys)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._abandon(error)

    def add(self, *keys: str) -> None:
        """Take objects in."""
        self._keys.update(dict.fromkeys(keys))

    def release(self, keys: Iterable[str]) -> None:
        """Leave objects to somebody else."""
        for key in keys:
            self._keys.pop(key, None)

    def committed(self, keys: Iterable[str]) -> None:
        """Objects are parts of the table; the others wait for another put."""
        self.release(keys)
        self.attempt.may_stand = False

    def delete(self, keys: Iterable[str] | None = None) -> None:
        """Delete objects (None: all of them) that no put has named, and none will.

        What cannot be deleted is left to the orphan sweep, with a warning. Requests: 1 DELETE per
        1,000 objects, none without an object.
        """
        if self.attempt.may_stand:
            raise InvariantError(
                f"objects of table {self._table.settings.name} were to be deleted that may be live",
                next_step="report this with the log of the run; none was deleted",
            )
        gone = list(self._keys if keys is None else keys)
        self.release(gone)
        if not gone:
            return
        try:
            for answer in self._table.store.delete_many(gone):
                if answer.error is not None:
                    _LOG.warning("%s is left to the orphan sweep: %s", answer.key, answer.error)
        except Exception as error:  # noqa: BLE001 - what ended the run says more than this
            _LOG.warning("up to %d new objects are left to the orphan sweep: %r", len(gone), error)

    def _abandon(self, error: BaseException) -> None:
        if not self.attempt.may_stand:
            self.delete()
        elif self._keys:
            # FirnlineErrors say what to do next themselves.
            step = "" if isinstance(error, FirnlineError) else f"; {_STEP}"
            _LOG.warning(
                "%d new objects of table %s stay (%s, for one): nobody can say whether they are "
                "committed (%s)%s",
                len(self._keys),
                self._table.settings.name,
                next(iter(self._keys)),
                type(error).__name__,
                step,
            )


_STEP = (
    "look with `firnline parts` or `firnline history` before running it again; if they are not, "
    "the orphan sweep deletes them"
)
