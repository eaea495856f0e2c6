"""How far requests of erasure are in one table. Reads the log, certificates and keys only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from firnline.commit.base import Base, read_base
from firnline.errors import FirnlineError, UsageError
from firnline.ids import uuid7_time_ms
from firnline.operations.delete.plan import plan_erase
from firnline.operations.erase.certificate import Certificate, list_certificates, read
from firnline.operations.erase.held import HeldKeysError, refuse_held_keys
from firnline.operations.erase.keys import MAX_KEYS, NoKeyError
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
    """What is in the way, with the next step; empty: nothing."""
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


def look_at_table(table: Table, folder: RequestFolder, requests: Sequence[Request]) -> TableLook:
    """Return how far requests are in a table whose ``person`` names columns.

    Requests: those of ``read_base``, a LIST and a GET for each certificate since the oldest of the
    requests was taken; in the folder a GET for each that is to be erased, twice if not all of them
    can be.

    Args:
        table: the table.
        folder: of the requests.
        requests: that are open, by their urgency.
    """
    columns = table.settings.person or ()
    try:
        require_table(table)
        base = read_base(table)
        steps, batch = _sorted_out(base, folder, requests)
        look = TableLook(table=table.settings.name, columns=columns, steps=steps, batch=batch)
        return _planned(look, base, folder, requests)
    except FirnlineError as error:
        why = f"{error.headline}; {error.next_step}"
        return TableLook(table=table.settings.name, columns=columns, unread=why)


def erase_options(
    look: TableLook, folder: RequestFolder, requests: Iterable[Request]
) -> EraseOptions:
    """Return the options of the erase of a batch."""
    asked = (folder.keys_of(each) for each in requests if each.id in look.batch)
    return EraseOptions(columns=look.columns, requests=tuple(asked))


def _sorted_out(
    base: Base, folder: RequestFolder, requests: Sequence[Request]
) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Return a step for each request, and those that are erased next."""
    table, columns = base.table, base.table.settings.person or ()
    known = _erases(base, requests)
    steps, todo = dict[str, Step](), list[Request]()
    for each in requests:
        step = known.get(each.id) or _unfit(table, columns, each)
        if step is None:
            todo.append(each)
        else:
            steps[each.id] = step
    fit, others = _fitting(base, folder, todo)
    steps |= {each.request: each for each in others}
    most, batch = MAX_KEYS, list[str]()
    for each in fit:
        most -= each.keys
        batch += [each.id] if most >= 0 or not batch else []
        state: State = "to do" if each.id in batch else "later"
        steps[each.id] = Step(request=each.id, state=state)
    return tuple(steps[each.id] for each in requests), tuple(batch)


def _planned(
    look: TableLook, base: Base, folder: RequestFolder, requests: Sequence[Request]
) -> TableLook:
    if not look.batch:
        return look
    keys = load_keys(base.table, base.snapshot, erase_options(look, folder, requests))
    plan = plan_erase(base.snapshot, base.table.settings, keys.planned(), len(keys.keys))
    return msgspec.structs.replace(
        look, keys=len(keys.keys), parts=plan.parts_in, bytes=plan.bytes_in
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


def _fitting(
    base: Base, folder: RequestFolder, todo: Sequence[Request]
) -> tuple[Sequence[Request], list[Step]]:
    """Return the requests that can be erased together, and the steps of the others."""
    if not todo or _problem(base, folder, todo) is None:
        return todo, []
    fit, steps = list[Request](), list[Step]()
    for each in todo:
        problem = _problem(base, folder, [each])
        if problem is None:
            fit.append(each)
            continue
        state: State = "refused"
        if isinstance(problem, NoKeyError):
            state = "no key"
        elif isinstance(problem, HeldKeysError):
            state = "held"
        why = "" if state == "no key" else f"{problem.message}; {problem.next_step}"
        steps.append(Step(request=each.id, state=state, why=why))
    return fit, steps


def _problem(base: Base, folder: RequestFolder, todo: Sequence[Request]) -> UsageError | None:
    """Return why requests cannot be erased together; None if they can."""
    asked = tuple(folder.keys_of(each) for each in todo)
    options = EraseOptions(columns=base.table.settings.person or (), requests=asked)
    try:
        refuse_held_keys(base.snapshot, load_keys(base.table, base.snapshot, options))
    except UsageError as error:
        return error
    return None


def _erases(base: Base, requests: Sequence[Request]) -> Mapping[str, Step]:
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
    """Yield the certificates since the oldest request, without those of unread parts, newest first.

    An erase that could not read a part has left keys: the request is erased again.
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
        if certificate is not None and not certificate.failed:
            yield certificate


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
