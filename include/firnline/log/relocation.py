"""Rewrite log files, transactions and certificates of a table that was copied or renamed.

Pure functions from the bytes of an object to the keys that it names, or to its bytes for another
place. Only keys and checksums change. Lines are not decoded and encoded again where that can be
avoided, and header fields keep their JSON text, so that nothing that this version does not know is
lost (docs/format.md, "Relocation").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.errors import ForeignPathError
from firnline.log import codec, txn_file
from firnline.log.codec import UNREADABLE, check_seal, corrupt
from firnline.log.records import LogContent
from firnline.paths import TablePaths, without_empty_segments
from firnline.properties import record as birth

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode

_BIRTH = TablePaths("").birth
"""End of the key of a birth record."""

_DIRS = ("data_dir", "log_dir", "txn_dir", "checkpoint_dir", "erase_dir")


class _Anywhere(TablePaths):
    """Paths of a table whose prefix is not known yet: every key is accepted."""

    def part_key(self, spelled: str) -> str:
        table, folder, rest = spelled.partition("_data/")
        return table + folder + without_empty_segments(rest).removeprefix("/")

    def check_log(self, key: str, what: str = "") -> None:
        pass

    def check_parts(self, keys: Sequence[str], raw: bytes) -> None:
        pass


_ANYWHERE = _Anywhere("")


@dataclass(frozen=True, slots=True)
class Named:
    """The keys that a log file or transaction names."""

    content: LogContent
    """Content of the log file, with its original paths."""
    logs: tuple[str, ...]
    """Keys of log files: log tombstones, and that under which a transaction publishes its own."""

    @property
    def nothing(self) -> bool:
        """True if it names no key, and so fits any place."""
        return not self.logs and not self.content.markers

    def fits(self, paths: TablePaths) -> bool:
        """Return True if every key is under these paths."""
        return all(key.startswith(paths.log_dir) for key in self.logs) and all(
            marker.p.startswith(paths.data_dir) for marker in self.content.markers
        )

    def prefixes(self) -> frozenset[str]:
        """Return the table prefixes that all of the keys are compatible with; mostly one.

        A log file has no folder below ``_log/``, so its key determines the prefix. A folder of a
        part may be named ``_data`` too, if one table is inside another.
        """
        common: frozenset[str] | None = None
        logs = {_log_prefixes(key) for key in self.logs}
        folders = {marker.p.rpartition("/")[0] + "/" for marker in self.content.markers}
        for prefixes in (*logs, *map(_data_prefixes, folders)):
            common = prefixes if common is None else common & prefixes
        return common or frozenset()


def _log_prefixes(key: str) -> frozenset[str]:
    folder = f"/{key}".rpartition("/")[0]
    if not folder.endswith("/_log"):
        return frozenset()
    return frozenset([folder.removesuffix("/_log").removeprefix("/")])


def _data_prefixes(folder: str) -> frozenset[str]:
    segments = folder.split("/")
    return frozenset("/".join(segments[:i]) for i, name in enumerate(segments) if name == "_data")


def named_by_log(key: str, data: bytes) -> Named:
    """Return the keys that a log file of any table names. Raises LogCorruptError."""
    content = codec.decode(key, data, _ANYWHERE)
    return Named(content, tuple(tombstone.p for tombstone in content.tombstones))


def named_by_txn(key: str, data: bytes) -> Named:
    """Return the keys that a file under ``_txn/`` of any table names. Raises LogCorruptError."""
    if _is_birth(key):
        log = birth.decode(key, data).log
        # Downgrades of older versions name a transaction.
        return Named(LogContent(t=0, schema={}), (re.sub(r"\b_txn/(?=[^/]+$)", "_log/", log),))
    header, log_file = _txn_pieces(key, data)
    inner = named_by_log(key, log_file)
    return Named(inner.content, (_TEXT.decode(header["log"]), *inner.logs))


def _is_birth(key: str) -> bool:
    return key.endswith(_BIRTH)


def _txn_pieces(key: str, data: bytes) -> tuple[dict[str, msgspec.Raw], bytes]:
    pieces = data.split(b"\n", 2)
    if len(pieces) < 3:
        raise corrupt(key, 1, "the transaction's log file is missing")
    check_seal(key, 2, *pieces)
    try:
        header = _OBJECT.decode(pieces[0])
        _TEXT.decode(header["log"])
    except (*UNREADABLE, KeyError) as error:
        raise corrupt(key, 1, str(error)) from error
    return header, pieces[2]


def move_log(key: str, data: bytes, old: TablePaths, new: TablePaths) -> bytes:
    """Return the bytes of a log file for another place.

    Args:
        key: of the object, for errors.
        data: bytes of the object, which names only keys of ``old``.
        old: former place of the table.
        new: present place of the table.

    Raises:
        LogCorruptError: it cannot be read.
        ForeignPathError: it names a key that is not of ``old``.
    """
    codec.decode(key, data, old)
    header = codec.decode_header(key, data)
    lines = data.split(b"\n")
    logs, parts = _mover(old.log_dir, new.log_dir), _mover(old.data_dir, new.data_dir)
    for number in range(header.tmb or header.f, header.f):
        lines[number] = logs(lines[number])
    for number in range(header.f, len(lines)):
        if lines[number]:
            lines[number] = parts(lines[number])
    moved = b"\n".join(lines)
    if header.ext is not None:
        moved = codec.seal(b"\n".join(lines[:2]), b"\n".join(lines[3:]))
    codec.decode(key, moved, new)  # refuse to write what cannot be read again
    return moved


def _mover(old: str, new: str) -> Callable[[bytes], bytes]:
    """Return a function that moves a line, a JSON object whose ``p`` is a key under ``old``."""
    start, put = (b'{"p":' + _encode(folder)[:-1] for folder in (old, new))

    def move(line: bytes) -> bytes:
        if line.startswith(start):
            return put + line[len(start) :]
        # JSON as another client formats it.
        fields = _OBJECT.decode(line)
        moved = _moved(_TEXT.decode(fields["p"]), old, new)
        return _encode({**fields, "p": msgspec.Raw(_encode(moved))})

    return move


def _moved(key: str, old: str, new: str) -> str:
    if not key.startswith(old):
        raise ForeignPathError(
            f"{key!r} is not an object under {old}",
            next_step="find out where it comes from: a table names objects of one place only",
        )
    return new + key.removeprefix(old)


def move_txn(key: str, data: bytes, old: TablePaths, new: TablePaths) -> bytes:
    """Return the bytes of a file under ``_txn/`` for another place; see ``move_log``."""
    if _is_birth(key):
        fields = _OBJECT.decode(data)
        log = birth.decode(key, data).log
        # Downgrades of older versions name a transaction.
        folder = "txn_dir" if log.startswith(old.txn_dir) else "log_dir"
        place = _moved(log, getattr(old, folder), getattr(new, folder))
        return _encode({**fields, "log": msgspec.Raw(_encode(place))}) + b"\n"
    header, log_file = _txn_pieces(key, data)
    log = _moved(_TEXT.decode(header["log"]), old.log_dir, new.log_dir)
    head = _encode({**header, "log": msgspec.Raw(_encode(log))})
    moved = codec.seal(head, move_log(key, log_file, old, new))
    txn_file.decode(key, moved, new)
    return moved


def move_certificate(key: str, data: bytes, old: TablePaths, new: TablePaths) -> bytes:
    """Return a file of an erase for another place; unchanged if it names no key of ``old``.

    Keys of parts and of remaining objects become those of the new place, so that the erase can be
    completed there. Name and root of the table stay: they state where the erase was made.

    Raises LogCorruptError.
    """
    try:
        plain = msgspec.json.decode(data)
    except UNREADABLE as error:
        raise corrupt(key, 1, str(error)) from error
    if not isinstance(plain, dict):
        raise corrupt(key, 1, "it is not a JSON object")
    folders = [(getattr(old, name), getattr(new, name)) for name in _DIRS]

    def moved(text: Any) -> Any:  # noqa: ANN401 - JSON
        for before, now in folders:
            if isinstance(text, str) and text.startswith(before):
                return now + text.removeprefix(before)
        return text

    changed = {
        **plain,
        **{name: _each(plain, name, moved) for name in ("failed",) if name in plain},
        **{name: _entries(plain, name, moved) for name in ("parts", "remaining") if name in plain},
    }
    return data if changed == plain else _encode(changed)


def _each(plain: dict[str, Any], name: str, moved: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    value = plain[name]
    return [moved(item) for item in value] if isinstance(value, list) else value


def _entries(plain: dict[str, Any], name: str, moved: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    value = plain[name]
    entries: Iterable[Any] = value if isinstance(value, list) else ()
    changed = []
    for entry in entries:
        if not isinstance(entry, dict):
            return value
        new = dict(entry)
        if "key" in new:
            new["key"] = moved(new["key"])
        if "objects" in new:
            new["objects"] = _each(new, "objects", moved)
        changed.append(new)
    return changed if isinstance(value, list) else value
