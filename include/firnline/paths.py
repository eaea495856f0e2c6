"""Build and parse the keys of a table. No other module concatenates keys.

Layout (docs/format.md, "Objects"); ``prefix`` is the table's key prefix in its bucket, for
``file://`` tables the name of the table's folder::

    {prefix}/_log/{t:013d}_{writer}.jsonl
    {prefix}/_log/{t:013d}_m_{seq:020d}-{uuid7}.jsonl
    {prefix}/_data/{partition}/{name}.parquet
    {prefix}/_txn/{seq:020d}.jsonl
    {prefix}/_ckpt/{seq:020d}-{uuid7}.parquet
    {prefix}/_probe/{uuid7}
    {prefix}/_erase/{uuid7}.keys.parquet, .plan.json, .json, .complete.json
    {prefix}/_runs/{digest}/{number:06d}.json, and _once/ likewise
    {prefix}/_imports/{uuid7}.json
    {prefix}/_prepared/{uuid7}.json, .decision.json, .closed.json
    {prefix}/_delta_log/{version:020d}.json, .checkpoint.parquet, and _last_checkpoint
    {prefix}/_iceberg/shown/{seq:020d}-{t:013d}.json, .begun
    {prefix}/_iceberg/metadata/, whose names pyiceberg and the catalog give
    {prefix}/_delta_vectors/deletion_vector_{uuid7}.bin, and {uuid7}.json
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal
from urllib.parse import quote, unquote
from uuid import UUID

from firnline.errors import ForeignPathError, LogCorruptError, UsageError
from firnline.ids import UUID7
from firnline.meant_url import refuse_unfilled, step_to

NULL_VALUE = "__null__"
"""Directory value of a null partition value."""

KEYS_SUFFIX, PLAN_SUFFIX, COMPLETE_SUFFIX = ".keys.parquet", ".plan.json", ".complete.json"
"""Suffixes behind the id of an erase, under ``_erase/``; its certificate ends in ``.json``."""

PreparedKind = Literal["statement", "decision", "closed"]
"""Kinds of the objects of a prepared change."""
_PREPARED_SUFFIXES: dict[PreparedKind, str] = {
    "statement": ".json",
    "decision": ".decision.json",
    "closed": ".closed.json",
}

_VECTORS = "_delta_vectors"
"""Folder of deletion vectors. A VACUUM skips folders with an underscore."""
_OWN = ("_log", "_data", "_txn", "_ckpt", "_erase", "_probe", "_runs", "_prepared", "_once")
_FOLDERS = frozenset((*_OWN, "_imports", "_delta_log", _VECTORS, "_iceberg"))
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_USER = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/+[^/]*@")
_EMPTY = re.compile(r"/{2,}")
_WRITER = re.compile(r"[A-Za-z0-9.-]+")
_WRITTEN_BY = re.compile(
    rf"/[0-9]{{1,19}}_(?P<writer>{_WRITER.pattern})-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\.jsonl$"
)
LONGEST_WRITER = 128
"""Characters of a writer's name. A file has a name of 255 bytes at most; 63 are for the rest of the
key's last segment, and 64 for the suffix under which a store stages an object."""
UNNAMED = "firnline"
"""Name in the log files of writers that give themselves none."""
_LOG_NAME = re.compile(r"(?P<t>[0-9]{1,19})_(?P<rest>.+)\.jsonl", re.DOTALL)
_OURS = re.compile(rf"m_(?P<seq>[0-9]{{20}})-(?P<txn>{UUID7.pattern})")
_CHECKPOINT = re.compile(rf"(?P<seq>[0-9]{{20}})-{UUID7.pattern}\.parquet")
_TXN_NAME = re.compile(r"(?P<seq>[0-9]{20})\.jsonl")
_PREPARED = re.compile(rf"(?P<id>{UUID7.pattern})(?P<suffix>(\.decision|\.closed)?\.json)")
_SHOWN_NAME = re.compile(r"(?P<seq>[0-9]{20})-(?P<t>[0-9]{13,19})\.(?P<kind>json|begun)")
_VECTOR_NAME = re.compile(rf"(?:deletion_vector_({UUID7.pattern})\.bin|({UUID7.pattern})\.json)")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DELTA_NAME = re.compile(r"(?P<version>[0-9]{20})\.(?P<kind>json|checkpoint\.parquet)")


def without_empty_segments(path: str) -> str:
    """Return a path with one ``/`` where it has several, as a folder has it."""
    return _EMPTY.sub("/", path)


def transaction_time(key: str) -> int | None:
    """Return the date in the key of a transaction's log file; None for that of another log file."""
    match = _LOG_NAME.fullmatch(key.rpartition("/")[2])
    return int(match["t"]) if match is not None and _OURS.fullmatch(match["rest"]) else None


def _check_characters(writer: str) -> None:
    if _WRITER.fullmatch(writer) is None:
        raise UsageError(
            f"writer name {writer!r} has characters that a log file's name cannot hold",
            next_step="use the letters a-z and A-Z, digits, '.' and '-'",
        )


def check_writer(name: str) -> None:
    """Raise UsageError for a name that the key of a log file cannot hold on every store."""
    _check_characters(name)
    if len(name) > LONGEST_WRITER:
        raise UsageError(
            f"writer name {name[:20]}… has {len(name)} characters, and a log file's name holds "
            f"{LONGEST_WRITER} of one at most",
            next_step="choose a shorter one",
        )


def writer_in(key: str) -> str | None:
    """Return the name that an append's writer gave itself, from the key of its log file.

    None: it gave itself none, or it is the key of another log file.
    """
    match = _WRITTEN_BY.search(key)
    return None if match is None or match["writer"] == UNNAMED else match["writer"]


def is_plain(path: str) -> bool:
    """Return True if a path has the same characters in a URL."""
    return quote(path, safe="/=") == path


def refuse_user(url: str, what: str = "URL") -> None:
    """Refuse user information before a bucket (``s3://key:secret@bucket``).

    Args:
        url: of anything, well-formed or not.
        what: it is called in the message.

    Raises UsageError, which does not repeat the URL: it holds a credential before the @.
    """
    match = _USER.match(url)
    if match is not None and match["scheme"].lower() != "file" and step_to(url) is None:
        raise UsageError(
            f"a {what} holds no credentials", next_step="use connection_id or the usual chain"
        )


@dataclass(frozen=True, slots=True)
class Root:
    """The location of a table."""

    url: str
    scheme: str
    """s3, gs, az, file or memory."""
    bucket: str
    """Bucket or container; for ``file`` the absolute path of the table's parent folder."""
    prefix: str
    """Key prefix of the table in the bucket; may be empty except for ``file``."""

    @classmethod
    def parse(cls, url: str, *, source: bool = False) -> Root:
        """Parse the URL of a table, or with ``source`` of a folder of other files.

        Raises UsageError, which names it. For a source a word without a slash is the path of one.
        """
        what = "URL" if source else "root"
        refuse_unfilled(url)
        refuse_user(url, what)
        scheme, mark, rest = url.partition("://")
        bad = scheme == "file" and not rest.startswith("/")
        if bad or not mark or scheme not in {"s3", "gs", "az", "file", "memory"}:
            raise UsageError(
                f"{url!r} is not the {what} of a {'folder' if source else 'table'}",
                next_step=step_to(url, word_is_path=source)
                or "write s3://bucket/prefix, gs://, az://, file:///folder or memory://name",
            )
        path = rest.rstrip("/")
        if scheme == "file":
            parent, _, name = path.rpartition("/")
            bucket, prefix = parent or "/", name
        else:
            bucket, _, prefix = path.partition("/")
        segments = path.lstrip("/").split("/") if scheme == "file" else [bucket, *_split(prefix)]
        if _CONTROL.search(path):
            raise UsageError(
                f"the {what} {url!r} has a control character in it, such as a line break or a tab",
                next_step="write it in one line, without quotes around what YAML would unescape",
            )
        if any(s in {"", ".", ".."} for s in segments):
            raise UsageError(
                f"the {what} {url!r} has an empty or relative segment in it",
                next_step="write the whole path, such as s3://bucket/prefix or file:///data/table",
            )
        return cls(url=url, scheme=scheme, bucket=bucket, prefix=prefix)

    @property
    def _outside(self) -> str:
        """What precedes a key in the URL of an object."""
        parent = self.bucket.rstrip("/") if self.scheme == "file" else self.bucket
        return f"{self.scheme}://{parent}/"

    def url_of(self, key: str) -> str:
        """Return the URL of an object of the table, not encoded in any way."""
        return f"{self._outside}{key}"

    def key_of(self, url: str) -> str:
        """Return the key of an object of the table. Raises ForeignPathError for other URLs."""
        inside = f"{self.prefix}/" if self.prefix else ""
        if self.scheme == "file" and not url.startswith("file://"):
            url = url.replace("file:/", "file:///", 1)  # as Hadoop spells it
        if not url.startswith(f"{self._outside}{inside}"):
            raise ForeignPathError(
                f"{url} is not under {self.url}", next_step="keep all of a table under its root"
            )
        return url.removeprefix(self._outside)


def _split(prefix: str) -> list[str]:
    return prefix.split("/") if prefix else []


@dataclass(frozen=True, slots=True)
class LogName:
    """A parsed name under ``_log/``."""

    key: str
    t: int
    """Unix milliseconds of the log file."""
    kind: Literal["append", "transaction", "foreign-merge"]
    seq: int = 0
    """Sequence number of a transaction, 0 for the other kinds."""
    txn: str = ""
    """Transaction id (UUIDv7), empty for the other kinds."""


@dataclass(frozen=True, slots=True)
class PartName:
    """A parsed key under ``_data/``."""

    key: str
    partition: str
    name: str


@dataclass(frozen=True, slots=True)
class DeltaName:
    """A parsed name under ``_delta_log/``."""

    key: str
    version: int
    kind: Literal["json", "checkpoint.parquet"]


@dataclass(frozen=True, slots=True)
class ShownName:
    """A parsed name under ``_iceberg/shown/``."""

    seq: int
    """Newest transaction of a state."""
    t: int
    """Its date, unix ms."""
    begun: bool
    """The state is that of before the first snapshot, which shows no older one."""


RequestKind = Literal["request", "keys", "closed"]
"""Kinds of the objects of an erasure request."""
_REQUEST = re.compile(rf"(?P<id>{UUID7.pattern})\.(?P<kind>request|keys|closed)\.(?P<ending>\w+)")


@dataclass(frozen=True, slots=True)
class RequestName:
    """A parsed name in the folder of erasure requests."""

    id: str
    kind: RequestKind
    ending: str
    """Of the file: json, or of keys csv or parquet."""


@dataclass(frozen=True, slots=True)
class RequestPaths:
    """Keys of the folder of erasure requests, which is of no table.

    ``{prefix}/{uuid7}.request.json``, ``.keys.csv`` or ``.keys.parquet``, ``.closed.json``
    """

    prefix: str

    @property
    def folder(self) -> str:
        """Key prefix of all of it, ending in ``/``."""
        return f"{self.prefix}/"

    def key(self, name: RequestName) -> str:
        """Key of an object of a request."""
        return f"{self.folder}{name.id}.{name.kind}.{name.ending}"

    def parse(self, key: str) -> RequestName | None:
        """Return the name of an object of a request; None for any other key."""
        match = _REQUEST.fullmatch(key.removeprefix(self.folder))
        if match is None:
            return None
        kind: RequestKind = match["kind"]  # type: ignore[assignment]  # one of the pattern's
        return RequestName(match["id"], kind, match["ending"])


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Keys of one table."""

    prefix: str

    @property
    def _root(self) -> str:
        return f"{self.prefix}/" if self.prefix else ""

    def _dir(self, name: str) -> str:
        return f"{self._root}{name}/"

    @property
    def log_dir(self) -> str:
        """Key prefix of the log files, ending in ``/``."""
        return self._dir("_log")

    @property
    def data_dir(self) -> str:
        """Key prefix of the data parts, ending in ``/``."""
        return self._dir("_data")

    @property
    def txn_dir(self) -> str:
        """Key prefix of the transactions, ending in ``/``."""
        return self._dir("_txn")

    @property
    def checkpoint_dir(self) -> str:
        """Key prefix of the checkpoints, ending in ``/``."""
        return self._dir("_ckpt")

    def append_log(self, t: int, writer: str) -> str:
        """Key of an append's log file. ``writer`` ends in a UUIDv7 (docs/format.md)."""
        _check_characters(writer)
        return f"{self.log_dir}{t:013d}_{writer}.jsonl"

    def append_name(self, key: str) -> str:
        """Name of an append's log file within its folder, without the suffix."""
        return key.removeprefix(self.log_dir).removesuffix(".jsonl")

    def txn_log(self, t: int, seq: int, txn: str) -> str:
        """Key under which a transaction's log file is published."""
        return f"{self.log_dir}{t:013d}_m_{seq:020d}-{txn}.jsonl"

    def txn(self, seq: int) -> str:
        """Key of transaction ``seq`` in the linear history."""
        return f"{self.txn_dir}{seq:020d}.jsonl"

    @property
    def birth(self) -> str:
        """Key of the birth record: number 0, which is not a transaction and sorts before them."""
        return self.txn(0)

    def checkpoint(self, seq: int, name: str) -> str:
        """Key of a checkpoint of the state after transaction ``seq``; ``name`` is a UUIDv7."""
        return f"{self.checkpoint_dir}{seq:020d}-{name}.parquet"

    def checkpoint_seq(self, key: str) -> int | None:
        """Sequence number in a checkpoint's key; None for any other key."""
        match = _CHECKPOINT.fullmatch(key.removeprefix(self.checkpoint_dir))
        return int(match["seq"]) if match and key.startswith(self.checkpoint_dir) else None

    def probe(self, name: str) -> str:
        """Key of a probe object, which tests whether the store honours create-only puts."""
        return f"{self._dir('_probe')}{name}"

    @property
    def clone_plan(self) -> str:
        """Key of the plan of a clone to this root, which exists until the clone is complete."""
        return self.probe("clone")

    @property
    def erase_dir(self) -> str:
        """Key prefix of the files of erases, ending in ``/``."""
        return self._dir("_erase")

    def erase_keys(self, erase: str) -> str:
        """Key of the file of primary keys of an erase (a UUIDv7), which exists while it runs."""
        return f"{self.erase_dir}{erase}{KEYS_SUFFIX}"

    def parse_erase_keys(self, key: str) -> str | None:
        """Return the erase of a file of keys; None for any other key."""
        erase = key.removeprefix(self.erase_dir).removesuffix(KEYS_SUFFIX)
        return erase if UUID7.fullmatch(erase) and key == self.erase_keys(erase) else None

    def erase_plan(self, erase: str) -> str:
        """Key of the plan of an erase, written before it commits."""
        return f"{self.erase_dir}{erase}{PLAN_SUFFIX}"

    def certificate(self, erase: str) -> str:
        """Key of an erase's certificate."""
        return f"{self.erase_dir}{erase}.json"

    def completed_certificate(self, erase: str) -> str:
        """Key of the certificate that is written once everything it names is deleted."""
        return f"{self.erase_dir}{erase}{COMPLETE_SUFFIX}"

    @property
    def runs_dir(self) -> str:
        """Key prefix of all records of completed runs, ending in ``/``."""
        return self._dir("_runs")

    def run_dir(self, run: tuple[str, ...]) -> str:
        """Key prefix of what says that a run of Airflow completed, ending in ``/``.

        A digest: a run's id may have any character, and any length.

        Args:
            run: ids of its DAG, of the run, and of its task in a DAG that is not firnline's.
        """
        digest = sha256("\0".join(run).encode()).hexdigest()
        return f"{self.runs_dir}{digest[:32]}/"

    def run_record(self, run: tuple[str, ...], number: int) -> str:
        """Key of the record that the run completed, the first or ``number``-th time."""
        return f"{self.run_dir(run)}{number:06d}.json"

    def claims_dir(self, digest: str = "") -> str:
        """Key prefix of the claims of one key, by its digest, or of all; ends in ``/``."""
        return self._dir(f"_once/{digest}" if digest else "_once")

    def claim(self, digest: str, number: int) -> str:
        """Key of the first or ``number``-th claim of a key."""
        return f"{self.claims_dir(digest)}{number:06d}.json"

    @property
    def imports_dir(self) -> str:
        """Key prefix of the lists of imported files, ending in ``/``."""
        return self._dir("_imports")

    def imported(self, import_id: str) -> str:
        """Key of the list of all files that were imported up to an import."""
        return f"{self.imports_dir}{import_id}.json"

    def imported_visible(self, import_id: str) -> str:
        """Key of the object that says that an import with a list has become visible."""
        return f"{self.imports_dir}{import_id}.visible"

    @property
    def prepared_dir(self) -> str:
        """Key prefix of the objects of prepared changes, ending in ``/``."""
        return self._dir("_prepared")

    def prepared(self, change: str, kind: PreparedKind = "statement") -> str:
        """Key of an object of a prepared change (a UUIDv7)."""
        return f"{self.prepared_dir}{change}{_PREPARED_SUFFIXES[kind]}"

    def parse_prepared(self, key: str) -> tuple[str, PreparedKind] | None:
        """Return the change and the kind of a key under ``_prepared/``; None for another name."""
        match = _PREPARED.fullmatch(key.removeprefix(self.prepared_dir))
        if match is None or not key.startswith(self.prepared_dir):
            return None
        kinds = {suffix: kind for kind, suffix in _PREPARED_SUFFIXES.items()}
        return match["id"], kinds[match["suffix"]]

    @property
    def delta_dir(self) -> str:
        """Key prefix of the Delta mirror's log, ending in ``/``."""
        return self._dir("_delta_log")

    def delta_version(self, version: int) -> str:
        """Key of a version of the Delta mirror."""
        return f"{self.delta_dir}{version:020d}.json"

    @property
    def delta_last_checkpoint(self) -> str:
        """Key of the object that names the newest checkpoint of the Delta mirror."""
        return f"{self.delta_dir}_last_checkpoint"

    def parse_delta(self, key: str) -> DeltaName | None:
        """Parse a key under ``_delta_log/``; None for one that is no version or checkpoint."""
        match = _DELTA_NAME.fullmatch(key.removeprefix(self.delta_dir))
        if match is None or not key.startswith(self.delta_dir):
            return None
        kind: Literal["json", "checkpoint.parquet"] = (
            "json" if match["kind"] == "json" else "checkpoint.parquet"
        )
        return DeltaName(key, int(match["version"]), kind)

    def delta_path(self, key: str) -> str:
        """Return a part's path in the Delta mirror: relative to the root, and URL-encoded.

        An ``add`` and the ``remove`` of its part need the same bytes; another encoding would
        remove nothing.
        """
        return quote(key.removeprefix(self._root), safe="/=")

    def delta_key(self, path: str) -> str:
        """Return the key of the part that a path in the Delta mirror names."""
        return f"{self._root}{unquote(path)}"

    @property
    def iceberg_dir(self) -> str:
        """Key prefix of the Iceberg mirror, ending in ``/``: the location of its table."""
        return self._dir("_iceberg")

    @property
    def iceberg_metadata_dir(self) -> str:
        """Key prefix of the Iceberg mirror's metadata, ending in ``/``."""
        return f"{self.iceberg_dir}metadata/"

    @property
    def iceberg_shown_dir(self) -> str:
        """Key prefix of the records of what the Iceberg mirror shows, ending in ``/``."""
        return f"{self.iceberg_dir}shown/"

    def iceberg_shown(self, seq: int, t: int, *, begun: bool = False) -> str:
        """Key of the record that the Iceberg mirror shows a state, or begins with it or later."""
        return f"{self.iceberg_shown_dir}{seq:020d}-{t:013d}.{'begun' if begun else 'json'}"

    def parse_iceberg_shown(self, key: str) -> ShownName | None:
        """Parse a key under ``_iceberg/shown/``; None for any other."""
        match = _SHOWN_NAME.fullmatch(key.removeprefix(self.iceberg_shown_dir))
        if match is None or not key.startswith(self.iceberg_shown_dir):
            return None
        return ShownName(int(match["seq"]), int(match["t"]), match["kind"] == "begun")

    @property
    def vectors_dir(self) -> str:
        """Key prefix of the Delta mirror's deletion vectors and of their indexes."""
        return self._dir(_VECTORS)

    @property
    def small_dirs(self) -> tuple[str, ...]:
        """Key prefixes of all folders but those of parts and of erases, whose objects are large."""
        log = (self.log_dir, self.txn_dir, self.checkpoint_dir, self.prepared_dir)
        mirrors = (self.delta_dir, self.vectors_dir, self.iceberg_dir)
        others = (self.runs_dir, self.claims_dir(), self.imports_dir, self.probe(""))
        return (*log, *mirrors, *others)

    def vectors(self, name: str) -> str:
        """Key of a file of deletion vectors; ``name`` is a UUIDv7. Delta prescribes its form."""
        return f"{self.vectors_dir}deletion_vector_{name}.bin"

    def vectors_index(self, name: str) -> str:
        """Key of the object that says which parts have which vectors."""
        return f"{self.vectors_dir}{name}.json"

    def parse_vectors(self, key: str) -> str | None:
        """Return the UUIDv7 in the key of a file of vectors or of an index; None for others."""
        match = _VECTOR_NAME.fullmatch(key.removeprefix(self.vectors_dir))
        return None if match is None else match[1] or match[2]

    @staticmethod
    def vectors_ref(name: str) -> str:
        """Return a file of vectors as actions name it: its folder, and the UUID in base 85."""
        raw = UUID(name).bytes
        words = (int.from_bytes(raw[at : at + 4], "big") for at in range(0, 16, 4))
        text = (_Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))
        return _VECTORS + "".join(text)

    @staticmethod
    def vectors_of_ref(ref: str) -> str:
        """Return the UUIDv7 in the name that an action has. Raises ValueError for another's."""
        text = ref.removeprefix(_VECTORS)
        if len(text) != 20 or text == ref:
            raise ValueError(f"{ref!r} is not a file of firnline's")
        raw = b""
        for at in range(0, 20, 5):
            word = 0
            for character in text[at : at + 5]:
                word = word * 85 + _Z85.index(character)
            raw += word.to_bytes(4, "big")
        return str(UUID(bytes=raw))

    def partition_dir(self, partition: str) -> str:
        """Key prefix of a partition's parts, ending in ``/``."""
        return f"{self.data_dir}{partition}/" if partition else self.data_dir

    def data_part(self, partition: str, name: str) -> str:
        """Key of a data part; ``name`` is a UUIDv7."""
        return f"{self.partition_dir(partition)}{name}.parquet"

    def parse_log(self, key: str) -> LogName:
        """Parse a log file's key. Raises LogCorruptError for any other key."""
        match = _LOG_NAME.fullmatch(key.removeprefix(self.log_dir))
        if match is None or not key.startswith(self.log_dir):
            raise LogCorruptError(
                f"{key} is not the name of a log file",
                next_step="move the object out of _log/: nothing but log files may live there",
            )
        t, rest = int(match["t"]), match["rest"]
        ours = _OURS.fullmatch(rest)
        if ours is not None:
            return LogName(key, t, "transaction", int(ours["seq"]), ours["txn"])
        return LogName(key, t, "foreign-merge" if rest.startswith("m_") else "append")

    def parse_txn(self, key: str) -> int:
        """Sequence number of a key under ``_txn/``. Raises LogCorruptError."""
        match = _TXN_NAME.fullmatch(key.removeprefix(self.txn_dir))
        if match is None or not key.startswith(self.txn_dir):
            raise LogCorruptError(
                f"{key} is not the name of a transaction",
                next_step="move the object out of _txn/: nothing else may live there",
            )
        return int(match["seq"])

    def part_key(self, spelled: str) -> str:
        """Return the key of the part that a marker names: without empty segments below ``_data/``.

        Clients of log version 1 put the partition between two slashes, also where it is empty
        (``_data//name.parquet``) or begins or ends with a slash. A folder, and a server that keeps
        its objects in one, have the object under the key without the empty segment, and list it
        so. A part that was called by two names would be deleted as one that nobody names.
        """
        if "//" not in spelled or not spelled.startswith(self.data_dir):
            return spelled
        rest = without_empty_segments(spelled.removeprefix(self.data_dir))
        return self.data_dir + rest.removeprefix("/")

    def parse_part(self, key: str) -> PartName:
        """Split a part's key. Raises ForeignPathError when it is not under this table."""
        self.check_part(key)
        partition, _, name = key.removeprefix(self.data_dir).rpartition("/")
        return PartName(key, partition, name)

    def partition_of(self, key: str) -> str:
        """Return the partition of a part's key that was checked; empty right under ``_data/``."""
        start = len(self.data_dir)
        return key[start : max(start, key.rfind("/"))]

    def is_own_folder(self, folder: str) -> bool:
        """Return True for the key prefix of one of the table's own folders, ending in ``/``."""
        return folder.removeprefix(self._root).removesuffix("/") in _FOLDERS

    def nested_table(self, key: str) -> str | None:
        """Return the key prefix of another table below this one that a key belongs to, or None.

        It is told by a folder with the name of one of a table's folders, below another folder.
        """
        folders = key.removeprefix(self._root).split("/")[:-1]
        at = next((n for n, name in enumerate(folders) if n and name in _FOLDERS), None)
        return None if at is None else self._root + "/".join(folders[:at])

    @property
    def root(self) -> str:
        """Key prefix of everything below the table's root: empty, or ending in ``/``."""
        return self._root

    def may_be_another_tables(self, key: str) -> bool:
        """Return True if a folder in a key under ``_data/`` has the name of a folder of a table.

        No partition has such a name, so the key may belong to another table with its own log.
        """
        return not _FOLDERS.isdisjoint(key.removeprefix(self.data_dir).split("/")[:-1])

    def check_part(self, key: str, what: str = "a marker") -> None:
        """Refuse a marker's path that is not under this table's ``_data/``.

        The markers of a copied table name objects of the original. Following them would read, and
        eventually delete, objects of another table.
        """
        _check(key, self.data_dir, what)

    def check_log(self, key: str, what: str = "a log tombstone") -> None:
        """Refuse the key of a log file that is not under this table's ``_log/``.

        Args:
            key: of the log file.
            what: subject of the error message.
        """
        _check(key, self.log_dir, what)

    def check_parts(self, keys: Sequence[str], raw: bytes) -> None:
        """Run ``check_part`` on the keys of one log file; ``raw`` is the JSON text they came from.

        Checking a million keys one by one takes longer than reading them. JSON has to escape
        control characters, so without a backslash in the text no key has one. Then it is enough to
        check each folder once, and the names that do not look like a part's.
        """
        if b"\\" in raw or b"\x7f" in raw:
            doubtful: Iterable[str] = keys
        else:
            doubtful = list({key.rpartition("/")[0]: key for key in keys}.values())
            doubtful += [key for key in keys if not key.endswith(".parquet")]
        for key in doubtful:
            self.check_part(key)


def _check(key: str, under: str, what: str) -> None:
    if not key.startswith(under):
        raise ForeignPathError(
            f"{what} points to {key!r}, which is not an object under {under}",
            next_step="if the table was copied or renamed, `firnline relocate` writes its log for "
            "this place",
        )
    segments = key.removeprefix(under).split("/")
    if any(s in {"", ".", ".."} for s in segments) or _CONTROL.search(key) is not None:
        raise ForeignPathError(
            f"{what} points to {key!r}, which is not an object under {under} for every store: it "
            "has an empty or relative segment, or a control character",
            next_step="if a client of log version 1 wrote it, move its log file out of _log/, and "
            "append these rows with another partition",
        )


def path_columns(partition: str) -> frozenset[str]:
    """Return the names before ``=`` in the segments of a partition's path.

    Clients of log version 1 write them as columns into what they merge, though no schema line names
    them. Where the table does not have such a column, it is not data: the path holds its value.
    """
    segments = (segment.partition("=") for segment in partition.split("/"))
    return frozenset(unquote(name) for name, mark, _ in segments if name and mark)


def quote_value(value: str) -> str:
    """Encode a partition value for a path segment: percent-encoded UTF-8.

    Everything but letters, digits and ``_.-~`` is encoded; the literal text of ``NULL_VALUE``
    is encoded too, so that it is never taken for a null. Inverse: ``unquote_value``.
    """
    if value == NULL_VALUE:
        return "%5F" + NULL_VALUE[1:]
    return quote(value, safe="")


def unquote_value(text: str) -> str:
    """Decode a partition value; the inverse of ``quote_value``."""
    return unquote(text)
