"""Checks a copy of a table from its objects alone, for somebody who does not trust firnline.

FOLDER is the table's folder, or a copy of it. Only a witness from outside shows that the newest
transactions were cut off, or all were written anew. Nothing shows that a log file that is not
folded was removed, added, or changed with its checksum. Whoever knows the seed knows the sample.
Not looked at: mirrors, uploads, prepared changes, conditions. Exit code 1: wrong; 2: wrong usage.
"""

import argparse
import json
import re
from binascii import b2a_base64, crc32
from collections import Counter, abc
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ALL, NULL, KEPT = 2**64 - 1, 0x6E756C6C9A3F5D27, 100  # KEPT: of the newest transactions
JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
LOG_NAME = re.compile(r"_log/\d{13}_(?:m_(\d{20})-[0-9a-f-]{36}|[A-Za-z0-9.-]+)\.jsonl")
WITNESS = re.compile(r"firnline-witness table=\S+ \w+=([0-9a-f-]+) digest=([0-9a-f]{64})")
PLANNED = "version id table root columns keys digest run planned_ms deletes parts checked failed"


class Lane:
    """One of the two hashes of rows (docs/format.md, "Digests of rows")."""

    def __init__(self, lane: int) -> None:
        self.lane, self.factors, self.sum = lane, list[int](), 0

    def mix(self, x: int) -> int:
        x = (((x & ALL) ^ (x & ALL) >> 30) * 0xBF58476D1CE4E5B9) & ALL
        x = ((x ^ x >> 27) * 0x94D049BB133111EB) & ALL
        return x ^ x >> 31

    def of_name(self, name: str) -> tuple[int, int]:
        seed = sha256(b"firnline-rows-1\0" + name.encode().lower()).digest()[16 * self.lane :]
        return int.from_bytes(seed[:8], "little") | 1, int.from_bytes(seed[8:16], "little")

    def of_list(self, size: int, words: abc.Sequence[int]) -> int:
        for at in range(len(self.factors) + 1, len(words) + 1):
            begin = at * 0x9E3779B97F4A7C15 + self.lane * 0xD1B54A32D192ED03
            self.factors.append(self.mix(begin) | 1)
        pairs = zip(words, self.factors, strict=False)
        return (size + sum((word ^ word >> 32) * factor for word, factor in pairs)) & ALL

    def of_bytes(self, data: bytes) -> int:
        return self.of_list(len(data), memoryview(data + bytes(-len(data) % 8)).cast("Q"))

    def words(self, array: pa.Array) -> list[int | None]:
        array = getattr(array, "storage", array)  # of an extension type, such as UUID
        array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        if pa.types.is_map(array.type):
            array = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
        if pa.types.is_struct(array.type):
            found = [self.of_name("")[1]] * len(array)
            for field, column in zip(array.type, array.flatten(), strict=True):
                k, own = self.of_name(field.name)
                pairs = zip(found, self.words(column), strict=True)
                found = [f if w is None else f + (w ^ w >> 32) * k + own for f, w in pairs]
            found = [self.mix(each) for each in found]
        elif re.match("(large_|fixed_size_)?list<", str(array.type)):
            items = (NULL if word is None else word for word in self.words(array.flatten()))
            counts = pc.list_value_length(array).fill_null(0).to_pylist()
            found = [self.of_list(count, [next(items) for _ in range(count)]) for count in counts]
        else:
            plain = self.plain(array, array.type, str(array.type))
            bits = {v: self.of_bytes(v) if type(v) is bytes else (v or 0) & ALL for v in {*plain}}
            found = [bits[value] for value in plain]
        return [None if n else w for w, n in zip(found, array.is_null().to_pylist(), strict=True)]

    def of_keys(self, keys: list[Any], kind: pa.DataType) -> set[int | None]:  # of the log
        if not isinstance(keys[0], str):
            return {key & ALL for key in keys}
        if re.match("date|time", str(kind)):
            time = pa.timestamp("ns" if max(map(len, keys)) > 27 else "us")
            return {*self.words(pa.array([key.rstrip("Z") for key in keys]).cast(time))}
        if re.search("uuid|fixed_size_binary", str(kind)):
            keys = [bytes.fromhex(key.replace("-", "")) for key in keys]
        return {*self.words(pa.array(map(Decimal, keys) if "decimal" in str(kind) else keys))}

    def plain(self, array: pa.Array, kind: pa.DataType, name: str) -> list[Any]:
        if re.match("decimal(32|64|128)", name):
            array = array.cast(pa.decimal256(76, 38)).view(pa.binary(32))
        elif re.fullmatch("(large_)?(string|binary)(_view)?", name):
            array = array.cast(pa.large_binary())
        elif name in ("halffloat", "float", "double"):
            array = pc.if_else(pc.is_nan(array), float("nan"), array.cast("double")).view("uint64")
        elif re.match("date|time", name):
            unit = getattr(kind, "unit", name[7:-1])
            per = {"day": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 1_000, "ns": 1}[unit]
            ticks = array.view(f"int{kind.bit_width}").fill_null(0).to_pylist()
            return [t * per // 1_000 + t * per % 1_000 * 0xA24BAED4963EE407 for t in ticks]
        elif not re.match("u?int|bool|fixed_size_binary", name):
            raise NotImplementedError(f"a column of type {kind}")
        return list(array.to_pylist())


class Log:
    """A log file, under its own name or in a transaction."""

    def __init__(self, data: bytes, root: str) -> None:
        lines = data.split(b"\n")
        head, *after = [json.loads(line or b"{}") for line in lines]
        ext, end, self.x = head.get("ext"), head["f"] - 1, head.get("x", {})
        stones = head.get("tmb", head["f"]) - 1
        self.records = [kind for each in after[1:stones] for kind in each.items() if ext]
        self.stones = {each["p"].removeprefix(root) for each in after[stones:end]}
        self.markers = [each for each in after[end:] if each]
        crc = crc32(b"\n".join(lines[3:]), crc32(b"\n".join(lines[:2])))
        self.sealed = ext is None or (ext == 2 and after[1] == {"sum": {"crc32": crc}})
        text = b"\n".join(lines[:2] + lines[2 + bool(ext) :])
        own = rb'\A([^\n]*),"digest":"[0-9a-f]*"|(?<=\n{"p":")%b(?=_(data|log)/)'
        self.digest = sha256(re.sub(own % re.escape(root.encode()), rb"\1", text)).hexdigest()


class Check:
    """All objects of a table, and what was found."""

    def __init__(self, folder: Path) -> None:
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        self.files = {path.relative_to(folder).as_posix(): path for path in paths}
        self.findings, self.counts, self.clean = list[str](), Counter[str](), set[str]()
        self.root, self.newest, self.last, self.published = "", 0, 0, Log(b'{"f":1}', "")
        self.heads, self.logs, self.digests, self.parts = (dict[Any, Any]() for _ in range(4))
        self.deletes, self.erases, self.links, self.gone = (dict[Any, Any]() for _ in range(4))

    def wrong(self, is_so: object, name: str, why: str) -> None:
        self.findings += [f"WRONG {name}: {why}"] if is_so else []

    def each(self, names: str, work: abc.Callable[[str, Path], None], more: list[str]) -> None:
        for name in [*(name for name in self.files if re.fullmatch(names, name)), *more]:
            self.counts[work.__name__.replace("_", " ")] += 1
            try:
                work(name, self.files.get(name, Path(name)))
            except NotImplementedError as error:
                self.counts[f"of these not checked: {error}"] += 1
            except Exception as error:  # noqa: BLE001 - objects that were tampered with hold anything
                self.wrong(True, name, f"cannot be read ({type(error).__name__}: {error})")

    def transactions(self, name: str, path: Path) -> None:
        (line, *rest), seq = path.read_bytes().split(b"\n", 2), int(name[5:25])
        header = json.loads(line)
        self.root = header["log"].rpartition("_log/")[0]
        if not seq:  # the birth record: which numbers were used up before a downgrade
            self.last, self.counts["transactions"] = header.get("seq", 0), 0
            return
        moved = re.sub(rb'("log":")(?:[^"\\]|\\.)*/', rb"\1", line, count=1)
        own, before = sha256(moved).hexdigest(), self.digests.get(f"_txn/{seq - 1:020}.jsonl")
        log = self.published = Log(rest[1], self.root)
        self.newest, self.heads[seq], self.digests[name] = seq, header, own
        self.links |= {link["number"]: link for link in [header.get("erase")] if link}
        changed = (header.get("content", log.digest), log.x.get("digest", own)) != (log.digest, own)
        self.wrong(changed or header["seq"] != seq, name, "has another digest or number")
        other = before and seq - 1 > self.last and header.get("before", before) != before
        self.wrong(other, name, f"followed another transaction {seq - 1}")

    def log_files(self, name: str, path: Path) -> None:
        found, log = LOG_NAME.fullmatch(name), Log(path.read_bytes(), self.root)
        seq, self.logs[name] = int((found and found[1]) or 0), log
        header = self.heads.get(seq, {"log": name})
        stated = (header["log"].removeprefix(self.root), header.get("content", log.digest))
        self.counts["of these without a checksum, of other clients"] += not log.records
        self.wrong(not found or not log.sealed, name, "has a wrong name or checksum")
        self.wrong(stated != (name, log.digest), name, f"is not that of transaction {seq}")
        self.wrong(seq > self.newest, name, f"is of {seq}, the history ends with {self.newest}")

    def state(self) -> None:
        for n in {*range(1 + max(self.last, self.newest - KEPT), self.newest)} - {*self.heads}:
            op = self.heads[min(seq for seq in self.heads if seq > n)]["op"]
            self.wrong(op not in ("clone", "rebuild"), f"_txn/{n:020}.jsonl", "is missing")
        standing = [self.newest, *(self.published.x.get("standing") or ())]
        for n in standing[1:]:
            lost = f"_m_{n:020}-" not in str([*self.logs])
            self.wrong(lost, f"_log/*_m_{n:020}-*", "is missing, and was never folded")
        stones = {each for log in self.logs.values() if log.x for each in log.stones}
        for name, log in [*self.logs.items(), ("", self.published)]:  # as if it had its log file
            if name not in stones and log.x.get("seq", self.newest) in standing:
                self.deletes |= {v["id"]: v["where"] for kind, v in log.records if kind == "del"}
                self.links |= {v["number"]: v for kind, v in log.records if kind == "erase"}
                for marker in log.markers:
                    part = "_data/" + marker["p"].partition(f"{self.root}_data/")[2].lstrip("/")
                    old = self.parts.get(part, {"d": []})
                    other = [k for k in "bgnq" if k in old and k in marker and old[k] != marker[k]]
                    self.wrong(other, name, f"states {other} of {part} as no other log file does")
                    self.parts[part] = {**old, **marker, "d": old["d"] + marker.get("d", [])}

    def witnesses(self, name: str, path: Path) -> None:
        found = WITNESS.findall(path.read_text())
        self.wrong(not found, name, "has no witness")
        for what, digest in found:
            seen = f"_erase/{what}.complete.json" if "-" in what else f"_txn/{what:0>20}.jsonl"
            old = "-" not in what and int(what) < min(self.heads, default=0)
            self.counts["of these of transactions that were too old to be kept"] += old
            self.wrong(not old and self.digests.get(seen) != digest, seen, "differs from a witness")

    def certificates(self, name: str, path: Path) -> None:
        place = rb'"' + re.escape(self.root.encode()) + rb"(?=_(data|log|txn|ckpt|erase)/)"
        cert = json.loads(re.sub(place, b'"', path.read_bytes()))
        link, erase, head = cert["link"], cert["id"], cert["head"] or {"seq": 0, "digest": ""}
        if link is None:
            raise NotImplementedError("a certificate of a version without a chain")
        plan = {k: cert[k] for k in (PLANNED + " clean covers" * (cert["version"] > 1)).split()}
        plan["parts"] = [{k: v for k, v in p.items() if k != "gone_ms"} for p in cert["parts"]]
        rest = {k: v for k, v in cert.items() if k not in ("sha256", "witness", "shown")}
        done, digest = cert["completed_ms"] is not None, sha256(JSON(rest).encode()).hexdigest()
        self.digests |= {name: digest} if name in self.files else {}
        self.erases.setdefault(erase, cert)  # the complete one comes first
        self.gone |= {p["key"]: erase for p in cert["parts"] if done or "gone_ms" in p}
        stored = f"_erase/{erase}{'.complete' * done}.json"
        self.wrong(self.digests.get(stored) != digest, name, f"is not what {stored} is")
        self.wrong(cert["sha256"] != digest, name, "has another digest than it states")
        stated = {"id": erase, **cert["replaced"], "plan": sha256(JSON(plan).encode()).hexdigest()}
        self.wrong({**link, **stated} != link, name, "is not as its erase was planned")
        known = self.heads.get(link["seq"], {"erase": link}).get("erase")
        new = link["number"] > max(self.links, default=0)
        chained = link == known == self.links.setdefault(link["number"], link)
        self.wrong(new or not chained, name, "is not in the chain of erases")
        there = self.digests.get(f"_txn/{head['seq']:020}.jsonl", head["digest"])
        other = there != head["digest"] or head["seq"] > self.newest
        self.wrong(other, name, f"speaks of another transaction {head['seq']}")
        for one in [*cert["deletes"], *cert.get("covers", ())]:
            self.clean |= {one + part for part in re.findall(".{16}", cert.get("clean", ""))}

    def claims(self) -> None:
        for number, link in self.links.items():
            name, before = f"_erase/{link['id']}.json", self.links.get(number - 1)
            self.wrong(link["id"] not in self.erases, name, f"is missing, of erase {number}")
            other = number > 1 and link["before"] != sha256(JSON(before).encode()).hexdigest()
            self.wrong(other, name, f"followed another erase {number - 1}")
        for name in sorted({*self.parts} | {n for n in self.files if n.startswith("_data/")}):
            part, back = self.parts.get(name, {"tmb": 0}), self.gone.get(name.rpartition("/")[2])
            size = self.files[name].stat().st_size if name in self.files else 0
            self.counts["objects that no log file names"] += name not in self.parts
            self.counts["live parts"] += "tmb" not in part
            lost = "tmb" not in part and size != part["b"]
            self.wrong(lost, name, f"is live, and has {size} bytes instead of {part.get('b')}")
            self.wrong(back and size, name, f"is there, and certificate {back} calls it gone")

    def parts_read(self, name: str, path: Path) -> None:
        part, keys, lanes = self.parts[name], dict[tuple[str, str, str], Any](), (Lane(0), Lane(1))
        listed = b2a_base64(sha256(name[6:].encode()).digest()[:12]).decode().strip()
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            rows, fields = file.metadata.num_rows, {f.name.lower(): f for f in file.schema_arrow}
            for erase, cert in self.erases.items():
                for one in cert["deletes"] if part.get("q", ALL) < cert["link"]["seq"] else ():
                    told = cert["completed_ms"] or one in part["d"] or one + listed in self.clean
                    where = self.deletes.get(one, {})
                    field = fields.get(where.get("column", "").lower())
                    if told and field and where["op"] == "in":
                        keys[erase, one, field.name] = lanes[0].of_keys(where["values"], field.type)
            for batch in file.iter_batches(2**14):
                for (erase, _, column), words in keys.items():
                    held = sum(word in words for word in lanes[0].words(batch[column]))
                    self.wrong(held, name, f"has {held} rows that certificate {erase} calls erased")
                for lane in lanes:
                    lane.sum += sum(filter(None, lane.words(batch.to_struct_array())))
        self.counts["of these searched for the keys of an erase"] += bool(keys)
        digest = f"r1:{lanes[0].sum & ALL:016x}{lanes[1].sum & ALL:016x}"
        same = (part.get("n", rows), part.get("g", digest)) == (rows, digest)
        self.wrong(not same, name, "has other rows than the log states")
        if "g" not in part:
            raise NotImplementedError("the log states no digest")


def main() -> int:
    """Check what the command line names, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--witness", metavar="FILE", action="append", default=[])
    parser.add_argument("--certificate", metavar="FILE", action="append", default=[])
    parser.add_argument("--sample", metavar="N", type=int, default=20, help="parts to read: 20")
    parser.add_argument("--all", dest="sample", action="store_const", const=None)
    parser.add_argument("--seed", metavar="TEXT", default="", help="chooses the sample")
    asked = parser.parse_args()
    for path in [asked.folder / "_log", *map(Path, asked.witness + asked.certificate)]:
        if not (path.is_file() or any(path.glob("*.jsonl"))):
            parser.error(f"there is nothing to check at {path}")
    check = Check(asked.folder)
    check.each(r"_txn/\d{20}\.jsonl", check.transactions, [])
    check.each(r"_log/.*\.jsonl", check.log_files, [])
    check.state()
    check.each(r"_erase/[0-9a-f-]{36}(\.complete)?\.json", check.certificates, asked.certificate)
    check.each("", check.witnesses, asked.witness)
    check.claims()
    live = [name for name, part in check.parts.items() if "tmb" not in part and name in check.files]
    live.sort(key=lambda name: sha256((asked.seed + name).encode()).digest())
    check.each("", check.parts_read, live[: asked.sample])
    print(*(f"{count:9,} {what}" for what, count in check.counts.items()), sep="\n")
    print(*check.findings or ["what was checked holds"], sep="\n")
    return int(bool(check.findings))


if __name__ == "__main__":
    raise SystemExit(main())
