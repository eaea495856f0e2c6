"""Look how far requests of erasure are in one table: reads the log, certificates and keys only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import msgspec

from firnline.commit.base import Base, read_base
from firnline.errors import FirnlineError, UsageError
from firnline.ids import uuid7_time_ms
from firnline.operations.delete.plan import plan_erase
from firnline.operations.erase.certificate import Certificate, list_certificates, read
from firnline.operations.erase.held import HeldKeysError, refuse_held_keys
from firnline.operations.erase.keys import KeySet, NoKeyError
from firnline.operations.erase.pending import longest_wait
from firnline.operations.erase.run import load_keys
from firnline.operations.erasure.folder import RequestFolder
from firnline.operations.erasure.record import ErasedTable, Request
from firnline.operations.options import EraseOptions
from firnline.state.health import require_table
from firnline.table import Table
from firnline.types.sql import fold_name
from firnline.units import DAY_MS

State = Literal["to do", "later", "held", "refused", "left out", "waiting", "complete", "no key"]
"""to do: the next run erases it; later: with the run after that; held: a legal hold is in the way;
refused: its keys do not fit the table; left out: as whoever took it said; waiting: erased, and its
certificate is not complete; complete: it is; no key: no row of its file has a value for the
table."""
DONE: frozenset[State] = frozenset({"complete", "left out", "no key"})
"""States that need nothing more."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A request in one table."""

    request: str
    state: State
    why: str = ""
    """Hindrance, with the next step; empty: none."""
    certificate: str | None = None
    ripe_ms: int | None = None
    """Time from which the certificate may be complete, unix ms; of those that wait."""
    erased: ErasedTable | None = None
    """Of a complete one."""


class TableLook(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one table."""

    table: str
    columns: tuple[str, ...]
    """That identify a person."""
    steps: tuple[Step, ...] = ()
    batch: tuple[str, ...] = ()
    """Requests that the next run erases together."""
    keys: int = 0
    """Distinct keys of the batch."""
    parts: int = 0
    """Parts that it reads."""
    bytes: int = 0
    unread: str = ""
    """Why the table cannot be read, with the next step; empty: it was read."""

    def step(self, request: str) -> Step | None:
        """Return the step of a request; None: the table was not read."""
        return next((each for each in self.steps if each.request == request), None)


def look_at_table(
    table: Table, folder: RequestFolder, requests: Sequence[Request], *, keys: bool = True
) -> TableLook:
    """Return how far requests are in a table whose ``person`` names columns.

    Requests: those of ``read_base``, a LIST and a GET for each certificate since the oldest of the
    requests was taken; with ``keys`` in the folder a GET for each that is to be erased, three if
    not all of them can be erased together.

    Args:
        table: the table.
        folder: of the requests.
        requests: that are open, by their urgency.
        keys: read the keys of what is to be erased. Without them there is no batch, and whether a
            legal hold or the keys themselves are in the way stays unknown: it is ``to do``.
    """
    columns = table.settings.person or ()
    try:
        require_table(table)
        base = read_base(table)
        known = _known(base, requests)
        todo = [each for each in requests if each.id not in known]
        batch, steps = _batch(base, folder, todo) if keys else (None, _to_do(todo))
        look = TableLook(
            table=table.settings.name,
            columns=columns,
            steps=tuple((known | steps)[each.id] for each in requests),
        )
        return look if batch is None else _planned(look, base, batch)
    except FirnlineError as error:
        return unread(table.settings.name, columns, error)


def unread(table: str, columns: Sequence[str], error: FirnlineError) -> TableLook:
    """Return the look at a table that cannot be opened or read."""
    why = f"{error.headline}; {error.next_step}"
    return TableLook(table=table, columns=tuple(columns), unread=why)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Requests that are erased together, and all of their keys."""

    requests: Sequence[Request]
    keys: KeySet

    @classmethod
    def of(cls, base: Base, folder: RequestFolder, requests: Sequence[Request]) -> _Batch:
        """Read the keys. Raises UsageError: they cannot be erased, or not together."""
        asked = tuple(folder.keys_of(each) for each in requests)
        options = EraseOptions(columns=base.table.settings.person or (), requests=asked)
        keys = load_keys(base.table, base.snapshot, options)
        refuse_held_keys(base.table.settings.name, base.snapshot, keys)
        return cls(requests, keys)


def _known(base: Base, requests: Sequence[Request]) -> dict[str, Step]:
    """Return the steps of requests that need no erase of the table, or cannot have one."""
    table = base.table
    unfit = (_unfit(table, table.settings.person or (), each) for each in requests)
    return {each.request: each for each in unfit if each is not None} | _erases(base, requests)


def _batch(
    base: Base, folder: RequestFolder, todo: Sequence[Request]
) -> tuple[_Batch | None, dict[str, Step]]:
    """Return what is erased next, and the steps of all that wait; one keeps no other from it."""
    if not todo:
        return None, {}
    fit, steps = [*todo], _to_do(todo)
    with suppress(UsageError):
        return _Batch.of(base, folder, fit), steps
    for each in todo:
        try:
            _Batch.of(base, folder, [each])
        except UsageError as problem:
            fit.remove(each)
            steps[each.id] = _hindered(each, problem)
    while fit:
        try:
            return _Batch.of(base, folder, fit), steps
        except UsageError:  # each of them fits, and all together are too many, or too long
            half = len(fit) // 2
            steps |= {each.id: Step(request=each.id, state="later") for each in fit[half:]}
            fit = fit[:half]
    return None, steps


def _to_do(todo: Sequence[Request]) -> dict[str, Step]:
    return {each.id: Step(request=each.id, state="to do") for each in todo}


def _planned(look: TableLook, base: Base, batch: _Batch) -> TableLook:
    keys = batch.keys
    plan = plan_erase(base.snapshot, base.table.settings, keys.planned(), len(keys.keys))
    return msgspec.structs.replace(
        look,
        batch=tuple(each.id for each in batch.requests),
        keys=len(keys.keys),
        parts=plan.parts_in,
        bytes=plan.bytes_in,
    )


def _unfit(table: Table, columns: Sequence[str], request: Request) -> Step | None:
    """Return the step of a request that is not erased from the table; None if it may be."""
    if table.settings.name in request.without:
        return Step(request=request.id, state="left out")
    have = {fold_name(name) for name in request.columns}
    lacking = [name for name in columns if fold_name(name) not in have]
    if not lacking:
        return None
    why = (
        f"its file of keys has no values of {', '.join(lacking)}; withdraw it, and ask again with "
        f"them or with --without {table.settings.name}"
    )
    return Step(request=request.id, state="refused", why=why)


def _hindered(request: Request, problem: UsageError) -> Step:
    if isinstance(problem, NoKeyError):
        return Step(request=request.id, state="no key")
    state: State = "held" if isinstance(problem, HeldKeysError) else "refused"
    step = "withdraw it, and ask again with keys that fit"
    if state == "held":
        step = problem.next_step
    return Step(request=request.id, state=state, why=f"{problem.message}; {step}")


def _erases(base: Base, requests: Sequence[Request]) -> dict[str, Step]:
    """Return the steps of requests that an erase of the table has carried out."""
    found: dict[str, Step] = {}
    table = base.table
    wait = longest_wait(table, base.snapshot.properties)
    for certificate in _certificates(table, requests):
        for asked in certificate.requests:
            step = _step_of(certificate, asked.id, wait, table.clock.now_ms())
            before = found.get(asked.id)
            # Of several that are open the oldest: the parts of the others may wait for it.
            if before is None or before.state == "waiting" or step.state == "complete":
                found[asked.id] = step
    return found


def _certificates(table: Table, requests: Sequence[Request]) -> Iterator[Certificate]:
    """Yield the certificates since the oldest request that count, newest first.

    An erase that could not read a part has left keys, and so has one by other columns: the request
    is erased again.
    """
    if not requests:
        return
    since = min(each.taken_ms for each in requests) - DAY_MS  # clocks differ
    for listed in reversed(list_certificates(table)):
        if uuid7_time_ms(listed.id) < since:
            return
        key = {
            "complete": table.paths.completed_certificate(listed.id),
            "waiting": table.paths.certificate(listed.id),
        }.get(listed.status)
        certificate = None if key is None else read(table, key)
        if certificate is not None and _is_of(certificate, table):
            yield certificate


def _is_of(certificate: Certificate, table: Table) -> bool:
    """Return True for an erase of all parts, by the columns that identify a person now."""
    now = {fold_name(name) for name in table.settings.person or ()}
    return not certificate.failed and {fold_name(name) for name in certificate.columns} == now


def _step_of(certificate: Certificate, request: str, wait: int, now_ms: int) -> Step:
    link, named = certificate.link, certificate.id
    if certificate.status != "complete":
        ripe = certificate.erased_ms + wait
        why = f"not certified yet; `firnline certificate {certificate.table} {named}` says why"
        return Step(
            request=request,
            state="waiting",
            why=why if ripe <= now_ms else "",
            certificate=named,
            ripe_ms=ripe,
        )
    erased = ErasedTable(
        table=certificate.table,
        root=certificate.root,
        certificate=named,
        sha256=certificate.sha256,
        seq=0 if link is None else link.number,
        completed_ms=certificate.completed_ms or 0,
    )
    return Step(request=request, state="complete", certificate=named, erased=erased)
