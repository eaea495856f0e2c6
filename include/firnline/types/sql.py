"""Parse SQL type texts of DuckDB into trees, and format them canonically."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>"(?:[^"]|"")+")
    | (?P<text>'(?:[^']|'')*')
    | (?P<word>[^\W\d][\w$]*)
    | (?P<number>\d+)
    | (?P<mark>[()\[\],])
    )""",
    re.VERBOSE,
)
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_ALIASES = {
    alias: canonical
    for canonical, aliases in {
        "BIGINT": "INT64 INT8 LONG OID",
        "BIGNUM": "VARINT",
        "BIT": "BITSTRING",
        "BLOB": "BINARY BYTEA VARBINARY",
        "BOOLEAN": "BOOL LOGICAL",
        "DECIMAL": "DEC NUMERIC",
        "DOUBLE": "FLOAT8",
        "FLOAT": "FLOAT4 REAL",
        "HUGEINT": "INT128",
        "INTEGER": "INT INT32 INT4 INTEGRAL SIGNED",
        "SMALLINT": "INT16 INT2 SHORT",
        "STRUCT": "ROW",
        "TIME WITH TIME ZONE": "TIMETZ",
        "TIMESTAMP": "DATETIME TIMESTAMP_US",
        "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
        "TINYINT": "INT1",
        "UBIGINT": "UINT64",
        "UHUGEINT": "UINT128",
        "UINTEGER": "UINT32",
        "USMALLINT": "UINT16",
        "UTINYINT": "UINT8",
        "UUID": "GUID",
        "VARCHAR": "BPCHAR CHAR NVARCHAR STRING TEXT",
    }.items()
    for alias in aliases.split()
}
_PHRASES = {
    "CHARACTER VARYING": "VARCHAR",
    "CHARACTER": "VARCHAR",
    "DOUBLE PRECISION": "DOUBLE",
    "TIME WITHOUT TIME ZONE": "TIME",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
}
_BUILT_IN = (
    frozenset(_ALIASES.values())
    | {"DATE", "GEOMETRY", "INTERVAL", "JSON", "TIME", "TIME_NS", "VARIANT"}
    | {"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ_NS"}
    | {"ENUM", "MAP", "UNION"}
)


@dataclass(frozen=True, slots=True)
class SqlType:
    """A node of a type tree.

    ``name`` is canonical (``INTEGER``, ``STRUCT``, ``LIST`` for ``T[]``, ``ARRAY`` for ``T[3]``).
    ``fields`` are the children: named for STRUCT and UNION; key and value of a MAP; the element of
    a LIST or ARRAY. ``numbers`` are precision and scale of a DECIMAL or the length of an ARRAY;
    ``texts`` the quoted arguments (an ENUM's values).
    """

    name: str
    fields: tuple[tuple[str, SqlType], ...] = ()
    numbers: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def element(self) -> SqlType:
        """Type of the elements of a LIST or ARRAY."""
        return self.fields[0][1]

    def __str__(self) -> str:
        if self.name in ("LIST", "ARRAY"):
            return f"{self.element}[{''.join(map(str, self.numbers))}]"
        if self.name in ("STRUCT", "UNION") and self.fields:
            inner = ", ".join(f"{quote_field(name)} {kind}" for name, kind in self.fields)
            return f"{self.name}({inner})"
        if self.name == "MAP":
            return f"MAP({self.fields[0][1]}, {self.fields[1][1]})"
        if self.texts:
            return f"{self.name}({', '.join(self.texts)})"
        if self.numbers:
            return f"{self.name}({','.join(map(str, self.numbers))})"
        return self.name


MAX_DIGITS = 38
"""Of the widest DECIMAL of DuckDB."""
MAX_LEVELS = 32
"""Lists, maps and structs inside of one another that a column may have. Arrow hands no type to
another library that is deeper than 64, of which a map takes two, and readers of Parquet stop at
100, of which lists and maps take two."""
MAX_REPEATED = 16
"""How many of them may be lists or maps: the time that DuckDB takes to read a file doubles with
each, whatever it holds (0.3 s at 20, 5 s at 24)."""


def is_too_deep(kind: SqlType) -> bool:
    """Return True for a type that is nested deeper than every reader takes it."""
    levels, repeated = _depth(kind)
    return levels > MAX_LEVELS or repeated > MAX_REPEATED


def _depth(kind: SqlType) -> tuple[int, int]:
    """Return the levels of a type, and how many of them are lists or maps, at its deepest."""
    inner = [_depth(each) for _, each in kind.fields]
    levels, repeated = (max(each) for each in zip(*inner, strict=True)) if inner else (0, 0)
    nested = kind.name in ("LIST", "ARRAY", "MAP", "STRUCT", "UNION")
    return levels + nested, repeated + (nested and kind.name not in ("STRUCT", "UNION"))


def quote_field(name: str) -> str:
    """Return a field name as DuckDB writes it inside a type: quoted only where necessary."""
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return quote_name(name)


def quote_name(name: str) -> str:
    """Return a name in double quotes, safe anywhere in SQL."""
    return '"' + name.replace('"', '""') + '"'


def fold_name(name: str) -> str:
    """Return the key that DuckDB compares names by: only the case of ASCII letters is ignored."""
    return name.translate(_ASCII_LOWER)


def is_unicode(text: str) -> bool:
    """Return False for half a character (a lone surrogate), which no file and no log holds."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def free_name(wish: str, taken: Iterable[str]) -> str:
    """Return a column name that is none of those taken: the wished one, or with ``_`` after it."""
    folded = {fold_name(name) for name in taken}
    while wish in folded:
        wish += "_"
    return wish


@lru_cache(maxsize=16384)
def parse_sql_type(text: str) -> SqlType | None:
    """Return the tree of a type text; None for an unknown type."""
    try:
        reader = _Reader(_tokens(text))
        kind = reader.type()
        return kind if reader.at_end() else None
    except (_NotATypeError, RecursionError):
        return None


class _NotATypeError(Exception):
    """The text is not a known type; never leaves this module."""


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _NotATypeError
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


class _Reader:
    """A recursive descent parser over the tokens of a type text."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def type(self) -> SqlType:
        kind = self._base()
        while True:
            if self._take("["):
                kind = self._bracket(kind)
            elif self._take_word("ARRAY"):
                kind = self._bracket(kind) if self._take("[") else SqlType("LIST", (("", kind),))
            else:
                return kind

    def _bracket(self, element: SqlType) -> SqlType:
        if self._take("]"):
            return SqlType("LIST", (("", element),))
        length = self._number()
        self._expect("]")
        return SqlType("ARRAY", (("", element),), (length,))

    def _base(self) -> SqlType:
        if self._peek() == ("name", '"NULL"'):
            self._at += 1
            return SqlType('"NULL"')
        name = self._base_name()
        if name in ("STRUCT", "UNION"):
            return SqlType(name, self._named_fields() if self._take("(") else ())
        if name == "MAP":
            return self._map()
        numbers, texts = self._arguments() if self._take("(") else ((), ())
        return _finish(name, numbers, texts)

    def _base_name(self) -> str:
        kind, first = self._next()
        if kind != "word":
            raise _NotATypeError
        words = [first.upper()]
        longer = {"TIME", "TIMESTAMP", "DOUBLE", "CHARACTER"}
        while words[0] in longer and self._peek()[0] == "word" and self._peek()[1].upper() in {
            "WITH", "WITHOUT", "TIME", "ZONE", "PRECISION", "VARYING"
        }:  # fmt: skip
            words.append(self._next()[1].upper())
        phrase = " ".join(words)
        name = _PHRASES.get(phrase) or _ALIASES.get(phrase, phrase)
        if name not in _BUILT_IN:
            raise _NotATypeError
        return name

    def _named_fields(self) -> tuple[tuple[str, SqlType], ...]:
        fields = []
        while True:
            kind, text = self._next()
            if kind not in ("word", "name"):
                raise _NotATypeError
            name = text[1:-1].replace('""', '"') if kind == "name" else text
            fields.append((name, self.type()))
            if not self._take(","):
                self._expect(")")
                return tuple(fields)

    def _map(self) -> SqlType:
        self._expect("(")
        key = self.type()
        self._expect(",")
        value = self.type()
        self._expect(")")
        return SqlType("MAP", (("key", key), ("value", value)))

    def _arguments(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        numbers: list[int] = []
        texts: list[str] = []
        while True:
            kind, text = self._next()
            if kind == "number":
                numbers.append(int(text))
            elif kind == "text":
                texts.append(text)
            else:
                raise _NotATypeError
            if not self._take(","):
                self._expect(")")
                return tuple(numbers), tuple(texts)

    def _number(self) -> int:
        kind, text = self._next()
        if kind != "number":
            raise _NotATypeError
        return int(text)

    def _peek(self) -> tuple[str, str]:
        return ("end", "") if self.at_end() else self._tokens[self._at]

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, mark: str) -> bool:
        if self._peek() != ("mark", mark):
            return False
        self._at += 1
        return True

    def _take_word(self, word: str) -> bool:
        kind, text = self._peek()
        if kind != "word" or text.upper() != word:
            return False
        self._at += 1
        return True

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise _NotATypeError


def _finish(name: str, numbers: tuple[int, ...], texts: tuple[str, ...]) -> SqlType:
    """Apply the arguments of a type as DuckDB does."""
    if name == "VARCHAR":  # VARCHAR(10) is accepted and its length forgotten
        return SqlType(name)
    if name == "DECIMAL":  # DECIMAL is DECIMAL(18,3), DECIMAL(p) has scale 0
        return SqlType(name, numbers=((*numbers, 0)[:2] if numbers else (18, 3)))
    if name == "TIMESTAMP" and numbers:  # TIMESTAMP(digits of the second)
        digits = numbers[0]
        unit = "_S" if digits == 0 else "_MS" if digits <= 3 else "" if digits <= 6 else "_NS"
        return SqlType(name + unit)
    return SqlType(name, numbers=numbers, texts=texts)


_WORDS = """
    abort absolute access action add admin after aggregate all also alter always analyse analyze
    and anti any approx array as asc asof assertion assignment asymmetric at attach attribute
    authorization backward before begin between bigint binary bit boolean both by cache call called
    cascade cascaded case cast catalog centuries century chain char character characteristics check
    checkpoint class close cluster coalesce collate collation column columns comment comments
    commit committed compression concurrently configuration conflict connect connection constraint
    constraints content continue conversion copy cost create cross csv cube current cursor cycle
    data database day days deallocate dec decade decades decimal declare default defaults
    deferrable deferred definer delete delimiter delimiters depends desc describe destroy detach
    dictionary disable discard disconnect distance distinct do document domain double drop each
    else enable encoding encrypted end enum error escape event exact except exclude excluding
    exclusive execute exists explain export export_state extension extensions external extract
    false family fetch filter first float following for force foreign forward freeze from full
    function functions generated glob global grant granted group grouping grouping_id groups
    handler having header hold hour hours identity if ignore ilike immediate immutable implicit
    import in include including increment index indexes inherit inherits initially inline inner
    inout input insensitive insert install instead int integer intersect interval into invoker is
    isnull isolation join json key label lambda language large last lateral leading leakproof left
    level like limit listen load local location lock locked logged macro map mapping match matched
    materialized maxvalue merge method microsecond microseconds millennia millennium millisecond
    milliseconds minute minutes minvalue mode month months move name names national natural nchar
    nearest new next no none not nothing notify notnull nowait null nullif nulls numeric object of
    off offset oids old on only operator option options or order ordinality others out outer over
    overlaps overlay overriding owned owner parallel parser partial partition partitioned passing
    password percent persistent pivot pivot_longer pivot_wider placing plans policy position
    positional pragma preceding precision prepare prepared preserve primary prior privileges
    procedural procedure program publication qualify quarter quarters quote range read real
    reassign recheck recursive ref references referencing refresh register reindex relative release
    rename repeatable replace replica reset resource resources respect restart restrict returning
    returns revoke right role rollback rollup row rows rule sample savepoint schema schemas scope
    scroll search second seconds secret secure security select semi sequence sequences serializable
    server session set setof sets share show similar similarity simple skip smallint snapshot some
    sorted source sql stable standalone start statement statistics stdin stdout storage stored
    strict strip struct subscription substring summarize symmetric sysid system table tables
    tablesample tablespace target temp template temporary text then ties time timestamp to trailing
    transaction transform treat trigger trim true truncate trusted try_cast tuple type types
    unbounded uncommitted unencrypted union unique unknown unlisten unlogged unpack unpivot until
    update use user using vacuum valid validate validator value values varchar variable variadic
    varying verbose version view views virtual volatile week weeks when where whitespace window
    with within without work wrapper write xml xmlattributes xmlconcat xmlelement xmlexists
    xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable year years yes zone
"""

KEYWORDS = frozenset(_WORDS.split())
"""Keywords of DuckDB: field names that its type texts quote. A test compares them with
``duckdb_keywords()`` of the installed DuckDB; listed here so that parsing needs no DuckDB."""
