"""Parquet files of anybody: random columns with random values, and the writers that there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

Values = st.SearchStrategy[Any]
Column = tuple[pa.DataType, Values]
"""A type, and values of it."""
KEY = "k"
"""Column that numbers the rows."""

_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Nanoseconds of a unit."""
_DAY = 86_400 * 10**9
_EXACT = Context(prec=90)


def _whole(low: int, high: int) -> Values:
    """Return whole numbers, often the first and the last ones."""
    return st.sampled_from([low, high, 0, 1]) | st.integers(low, high)


def _integer(bits: int, *, signed: bool) -> Values:
    return _whole(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else _whole(0, 2**bits - 1)


@st.composite
def _decimals(draw: st.DrawFn) -> Column:
    digits = draw(st.sampled_from([1, 4, 9, 10, 18, 19, 38]) | st.integers(1, 38))
    scale = draw(st.sampled_from([0, digits]) | st.integers(0, digits))
    kinds = [pa.decimal128, pa.decimal256]
    kinds += [pa.decimal64] if digits <= 18 else []
    kinds += [pa.decimal32] if digits <= 9 else []
    most = 10**digits - 1
    values = _whole(-most, most).map(lambda number: Decimal(number).scaleb(-scale, _EXACT))
    return draw(st.sampled_from(kinds))(digits, scale), values


@st.composite
def _times(draw: st.DrawFn) -> Column:
    unit = draw(st.sampled_from(sorted(_NANOS)))
    zone = draw(st.sampled_from([None, "UTC", "+02:00"]))
    # In Parquet, seconds are milliseconds; Python knows the years 1 to 9999.
    usual = _whole(-(10**10), 2 * 10**10).map(lambda n: n * 10**9 // _NANOS[unit])
    far = _integer(64, signed=True).map(lambda n: n // (1_001 if unit == "s" else 1))
    return pa.timestamp(unit, zone), far if unit == "ns" else usual | far


@st.composite
def _clocks(draw: st.DrawFn) -> Column:
    kinds = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    kind = draw(st.sampled_from(kinds))
    return kind, _whole(0, _DAY // _NANOS[kind.unit] - 1)


def _of(kind: pa.DataType, values: Values) -> st.SearchStrategy[Column]:
    return st.just((kind, values))


_TEXT = st.text(max_size=5) | st.sampled_from(["", "a" * 200, "\0", "é", "\U0010ffff"])
_FLOAT = st.floats(width=64) | st.sampled_from([float("nan"), float("inf"), -0.0])
_BYTES = st.binary(max_size=5)
LEAVES: st.SearchStrategy[Column] = st.one_of(
    *(
        _of(getattr(pa, f"{'' if signed else 'u'}int{bits}")(), _integer(bits, signed=signed))
        for bits in (8, 16, 32, 64)
        for signed in (True, False)
    ),
    _of(pa.bool_(), st.booleans()),
    _of(pa.float16(), st.floats(width=16)),
    _of(pa.float32(), st.floats(width=32)),
    _of(pa.float64(), _FLOAT),
    *(_of(kind, _TEXT) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *(_of(kind, _BYTES) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    _of(pa.binary(3), st.binary(min_size=3, max_size=3)),
    _of(pa.date32(), _whole(-(2**31), 2**31 - 1) | _whole(-800_000, 3_000_000)),
    _of(pa.date64(), _whole(-800_000, 3_000_000).map(lambda day: day * 86_400_000)),
    _of(pa.null(), st.none()),
    _decimals(),
    _decimals(),
    _times(),
    _times(),
    _clocks(),
)
_UUIDS = _of(pa.uuid(), st.binary(min_size=16, max_size=16))
_JSON = _of(pa.json_(), st.sampled_from(["{}", '{"a": [1, null]}', "2", '"é"']))
_CODES = _of(pa.dictionary(pa.int8(), pa.string()), _TEXT)
_NAMES = ["a", "B", "é", "list", "key", "x y", "a.b", "element", "value"]


def _maybe(values: Values) -> Values:
    return st.none() | values


@st.composite
def _nested(draw: st.DrawFn, inner: st.SearchStrategy[Column]) -> Column:
    kind, values = draw(inner)
    how = draw(st.sampled_from(["list", "large", "fixed", "struct", "map"]))
    if how == "list":
        return pa.list_(kind), st.lists(_maybe(values), max_size=3)
    if how == "large":
        return pa.large_list(kind), st.lists(_maybe(values), max_size=3)
    if how == "fixed":
        return pa.list_(kind, 2), st.lists(_maybe(values), min_size=2, max_size=2)
    if how == "map":
        key, keys = draw(st.sampled_from([(pa.string(), _TEXT), (pa.int32(), st.integers(-9, 9))]))
        pairs = st.lists(st.tuples(keys, _maybe(values)), max_size=3, unique_by=lambda p: p[0])
        return pa.map_(key, kind), pairs
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True))
    fields = {name: (kind, values) if at == 0 else draw(LEAVES) for at, name in enumerate(names)}
    return (
        pa.struct([(name, each) for name, (each, _) in fields.items()]),
        st.fixed_dictionaries({name: _maybe(each) for name, (_, each) in fields.items()}),
    )


_INNER = LEAVES | _nested(LEAVES)
COLUMNS: st.SearchStrategy[Column] = st.one_of(
    LEAVES,
    LEAVES,
    LEAVES,
    _UUIDS,
    _JSON,
    _CODES,
    _nested(LEAVES),
    _nested(_INNER | _nested(_INNER)),
)


@st.composite
def tables(draw: st.DrawFn, most: int = 12) -> pa.Table:
    """Rows of one to four random columns, numbered by ``k``; at most ``most``."""
    columns = draw(st.lists(COLUMNS, min_size=1, max_size=4))
    count = draw(st.sampled_from([0, 1, most]) | st.integers(0, most))
    # Long columns repeat a few values.
    held = min(count, 6)
    names = draw(st.permutations(["x", "Y y", "z.z", "ü"]))
    found = {KEY: pa.array(range(count), pa.int64())}
    for name, (kind, values) in zip(names, columns, strict=False):
        some = draw(st.lists(_maybe(values), min_size=held, max_size=held))
        found[name] = pa.array([some[n % held] for n in range(count)], kind)
    return pa.table(found)


@dataclass(frozen=True)
class Writer:
    """A writer with its options."""

    name: str
    write: Callable[[pa.Table, Path], None]
    exact: bool = True
    """It writes the very values that it is given."""
    options: str = ""
    """Of a COPY of DuckDB."""

    def __repr__(self) -> str:
        return self.name

    def written(self, rows: pa.Table, path: Path) -> bool:
        """Write a file; return False if this writer does not write such rows."""
        try:
            self.write(rows, path)
        except _CANNOT:
            return False
        return True


_CANNOT = (
    pa.ArrowException,
    duckdb.Error,
    polars.exceptions.PolarsError,
    NotImplementedError,
    OSError,
    TypeError,
    ValueError,
)


@st.composite
def by_pyarrow(draw: st.DrawFn) -> Writer:
    """Return pyarrow with any options."""
    flag = st.booleans()
    options: dict[str, Any] = {
        "version": draw(st.sampled_from(["1.0", "2.4", "2.6", "2.6"])),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "compression": draw(
            st.sampled_from(["none", "snappy", "gzip", "brotli", "zstd", "zstd", "lz4"])
        ),
        "use_dictionary": draw(flag),
        "use_compliant_nested_type": draw(flag),
        "store_schema": draw(flag),
        "write_statistics": draw(flag),
        "write_page_index": draw(flag),
        "write_page_checksum": draw(flag),
        "store_decimal_as_integer": draw(flag),
        "use_deprecated_int96_timestamps": draw(st.sampled_from([False, False, False, True])),
        "coerce_timestamps": draw(st.sampled_from([None, None, None, "ms", "us"])),
        "allow_truncated_timestamps": True,
        "use_byte_stream_split": draw(flag),
    }
    if options["use_dictionary"]:
        options["use_byte_stream_split"] = False
    if options["use_deprecated_int96_timestamps"]:
        options["coerce_timestamps"] = None
    groups = draw(st.sampled_from([[100], [1], [3], [0, 4, 0], [0]]))

    def write(rows: pa.Table, path: Path) -> None:
        given = dict(options)
        if given["use_byte_stream_split"]:
            given["use_byte_stream_split"] = _splittable(rows.schema)
        with pq.ParquetWriter(path, rows.schema, **given) as writer:
            at = 0
            for turn in range(rows.num_rows + 2):
                size = groups[turn % len(groups)] or (100 if groups == [0] and turn else 0)
                writer.write_table(rows.slice(at, size))
                at += size
                if at >= rows.num_rows:
                    break
            if at < rows.num_rows:
                writer.write_table(rows.slice(at))

    exact = options["version"] == "2.6" and not (
        options["use_deprecated_int96_timestamps"] or options["coerce_timestamps"]
    )
    shown = ", ".join(f"{name}={value}" for name, value in options.items())
    return Writer(f"pyarrow({shown}, groups={groups})", write, exact)


def _splittable(schema: pa.Schema) -> list[str]:
    """Return the columns that pyarrow writes with BYTE_STREAM_SPLIT."""
    checks = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_fixed_size_binary,
        pa.types.is_timestamp,
    )
    return [field.name for field in schema if any(check(field.type) for check in checks)]


STRANGE = {
    "enum": "(['a', 'b', NULL][n % 3 + 1])::ENUM('a', 'b')",
    "uuid": "CASE WHEN n % 3 = 0 THEN NULL ELSE '00000000-0000-4000-8000-00000000000a'::UUID END",
    "json": """CASE n % 3 WHEN 0 THEN '{"a": [1]}' WHEN 1 THEN '2' END::JSON""",
    "geometry": "CASE WHEN n % 3 > 0 THEN 'POINT(1 2)'::GEOMETRY END",
    "time in a zone": "CASE WHEN n % 3 > 0 THEN '10:00:00.5+02'::TIMETZ END",
    "hugeint": "[170141183460469231731687303715884105727::HUGEINT, NULL, -1][n % 3 + 1]",
    "uhugeint": "[340282366920938463463374607431768211455::UHUGEINT, NULL, 1][n % 3 + 1]",
    "interval": "CASE WHEN n % 3 > 0 THEN INTERVAL '1 month 2 days 3 seconds' END",
    "variant": "n::VARIANT",
    "bit": "[NULL, '0101'::BIT, ''::BLOB::BIT][n % 2 + 1]",
    "bignum": "n::BIGNUM",
    "times": "[NULL, '1969-12-31 23:59:59'::TIMESTAMP_S][n % 2 + 1]",
    "milliseconds": "[NULL, '1969-12-31 23:59:59.999'::TIMESTAMP_MS][n % 2 + 1]",
    "nanoseconds": "[NULL, '1969-12-31 23:59:59.999999999'::TIMESTAMP_NS][n % 2 + 1]",
    "nanoseconds of a day": "[NULL, '23:59:59.999999999'::TIME_NS][n % 2 + 1]",
    "endless": "['infinity', '-infinity', '290309-12-22 (BC)', NULL][n % 4 + 1]::TIMESTAMP",
    "endless dates": "['infinity', '-infinity', '5877642-06-25 (BC)', NULL][n % 4 + 1]::DATE",
    "array": "[n, NULL, 3]::INTEGER[3]",
    "union": "union_value(a := n)",
    "nested": "{'u': ['00000000-0000-4000-8000-00000000000a'::UUID], 'i': INTERVAL '1 day'}",
    "map of lists": "MAP {'a': [{'j': '{}'::JSON}], 'b': NULL}",
    "decimal": "[NULL, -99999999.99::DECIMAL(10, 2)][n % 2 + 1]",
}
"""Name -> expression over ``n`` of a type that other writers do not have, or write otherwise."""


def strange(kinds: Sequence[str], writer: Writer, path: Path) -> bool:
    """Write a file with columns of these types; return False if DuckDB does not."""
    columns = ", ".join(f"{STRANGE[kind]} AS x{place}" for place, kind in enumerate(kinds))
    try:
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT n AS {KEY}, {columns} FROM range(7) t(n)) TO '{path}' "
                f"(FORMAT parquet, {writer.options})"
            )
    except duckdb.Error:
        return False
    return True


@st.composite
def by_duckdb(draw: st.DrawFn) -> Writer:
    """Return DuckDB with any options."""
    version = draw(st.sampled_from(["V1", "V2"]))
    codec = draw(st.sampled_from(["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw"]))
    size = draw(st.sampled_from([1, 2048, 122_880]))
    options = f"PARQUET_VERSION {version}, COMPRESSION {codec}, ROW_GROUP_SIZE {size}"

    def write(rows: pa.Table, path: Path) -> None:
        with duckdb.connect() as connection:
            connection.register("given", rows)
            connection.execute(f"COPY (FROM given) TO '{path}' (FORMAT parquet, {options})")

    # Its times have microseconds, and its dates fewer years.
    return Writer(f"duckdb({options})", write, exact=False, options=options)


@st.composite
def by_polars(draw: st.DrawFn) -> Writer:
    """Return Polars with any options."""
    codec: Any = draw(st.sampled_from(["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"]))
    size = draw(st.sampled_from([None, 1, 5]))
    statistics: Any = draw(st.sampled_from([True, False, "full"]))

    def write(rows: pa.Table, path: Path) -> None:
        if any(map(_unknown_to_polars, rows.schema.types)):
            raise NotImplementedError
        frame = polars.from_arrow(rows)
        assert isinstance(frame, polars.DataFrame)
        frame.write_parquet(path, compression=codec, row_group_size=size, statistics=statistics)

    return Writer(f"polars({codec}, {size}, {statistics})", write, exact=False)


def _unknown_to_polars(kind: pa.DataType) -> bool:
    """Return True for types at which Polars does not stop with an error, but panics."""
    if pa.types.is_decimal(kind) or pa.types.is_map(kind):
        return not pa.types.is_decimal128(kind)
    return any(_unknown_to_polars(kind.field(at).type) for at in range(kind.num_fields))


WRITERS = by_pyarrow() | by_pyarrow() | by_duckdb() | by_polars()


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Return values that are equal if they mean the same, whatever their types."""
    return [_plain(value) for value in column]


def _plain(value: pa.Scalar) -> Any:  # noqa: C901
    if not value.is_valid:
        return None
    kind = value.type
    if kind == pa.uuid():  # DuckDB gives Arrow texts of them
        return str(value.as_py())
    if isinstance(value, pa.ExtensionScalar) or pa.types.is_dictionary(kind):
        return _plain(value.value)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return value.value * _NANOS[kind.unit]
    if pa.types.is_date32(kind):
        return value.value * _DAY
    if pa.types.is_date64(kind):
        return value.value * 10**6
    if pa.types.is_map(kind):
        return [(_plain(pair[0]), _plain(pair[1])) for pair in value.values]
    if pa.types.is_struct(kind):
        return {name: _plain(value[at]) for at, name in enumerate(kind.names)}
    if pa.types.is_nested(kind):
        return [_plain(each) for each in value.values]
    if pa.types.is_floating(kind):
        return repr(float(value.as_py()))
    if pa.types.is_decimal(kind):
        return str(value.as_py().normalize(_EXACT))
    return value.as_py()


def read_by_arrow(path: Path) -> pa.Table:
    """Return the rows of a file as Arrow reads them, INT96 in microseconds."""
    return pq.read_table(path, coerce_int96_timestamp_unit="us", partitioning=None)


def shifted(rows: pa.Table, by: int) -> pa.Table:
    """Return the rows with other keys."""
    keys = pa.array([n + by for n in range(rows.num_rows)], pa.int64())
    return rows.set_column(0, KEY, keys)
