"""The rule that decides when new objects may be deleted after a failure.

New parts are uploaded first and named by one create-only put afterwards: a transaction, or the log
file of an append or import. Until that put is sent no other process can know of them, and any
failure of the run may delete them: an error, Ctrl-C, a signal, lack of memory, a cancelled thread.
Once the put may have been sent they may be live parts. They are then deleted only if the put
certainly had no effect (another object exists under its key, or the store refused it explicitly);
in all other cases they stay, and the orphan sweep decides once it can be known.

The decision depends on the put, not on the exception, since a list of exceptions is never complete:
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

_STEP = (
    "check with `firnline parts` or `firnline history` before running it again; if they are not, "
    "the orphan sweep deletes them"
)


class Outputs:
    """New objects that wait for the put that names them.

    with Outputs(table, keys) as new:
        ...  # upload them; new.add(key) before each upload that is not known beforehand
        commit(table, base, change, run, new.attempt)

    Args:
        table: the table.
        keys: keys of the objects, uploaded already or not.
        attempt: attempt of a put that names other objects too; None: a new one.
    """

    def __init__(
        self, table: Table, keys: Iterable[str] = (), attempt: Attempt | None = None
    ) -> None:
        self.attempt = attempt or Attempt()
        """To be passed to the put; records whether it may have taken effect."""
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
        """Add objects."""
        self._keys.update(dict.fromkeys(keys))

    def release(self, keys: Iterable[str]) -> None:
        """Stop tracking objects: another owner is responsible for them."""
        for key in keys:
            self._keys.pop(key, None)

    def committed(self, keys: Iterable[str]) -> None:
        """Stop tracking objects that are now parts; the others wait for another put."""
        self.release(keys)
        self.attempt.may_stand = False

    def delete(self, keys: Iterable[str] | None = None) -> None:
        """Delete objects (None: all of them) that no put has named or will name.

        Objects that cannot be deleted are left to the orphan sweep, with a warning. Requests: 1
        DELETE per 1,000 objects; none without objects.
        """
        if self.attempt.may_stand:
            raise InvariantError(
                f"objects of table {self._table.settings.name} that may be live were to be deleted",
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
        except Exception as error:  # noqa: BLE001 - the error that ended the run matters more
            _LOG.warning("up to %d new objects are left to the orphan sweep: %r", len(gone), error)

    def _abandon(self, error: BaseException) -> None:
        if not self.attempt.may_stand:
            self.delete()
        elif self._keys:
            # A FirnlineError states the next step itself.
            step = "" if isinstance(error, FirnlineError) else f"; {_STEP}"
            _LOG.warning(
                "%d new objects of table %s stay (%s, for one): it is not known whether they are "
                "committed (%s)%s",
                len(self._keys),
                self._table.settings.name,
                next(iter(self._keys)),
                type(error).__name__,
                step,
            )
