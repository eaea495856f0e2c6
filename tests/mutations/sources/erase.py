"""What keeps the certificate of an erase true."""

from __future__ import annotations

from tests.mutations.model import Mutation

_UNNAMED = ("tests/unit/operations/erase/test_unnamed.py",)
_COMPLETION = ("tests/unit/operations/erase/test_completion.py",)
_PENDING = ("tests/unit/operations/erase/test_pending.py",)
_END = ("tests/unit/airflow/test_certificates.py",)

ERASE = (
    Mutation(
        name="a certificate does not look for keys of other runs",
        file="include/firnline/operations/erase/searches.py",
        old='    "keys files": lambda search, _base, _run: clear_keys(search),',
        new='    "keys files": lambda _search, _base, _run: (),',
        breaks="The keys of a killed run stay in plain Parquet under a complete certificate.",
        caught_by=_COMPLETION,
        unit=True,
    ),
    Mutation(
        name="a certificate does not look at prepared changes",
        file="include/firnline/operations/erase/searches.py",
        old='    "prepared changes": clear_prepared,',
        new='    "prepared changes": lambda _search, _base, _run: (),',
        breaks="A prepared change shows rows of the keys under a complete certificate.",
        caught_by=_COMPLETION,
        unit=True,
    ),
    Mutation(
        name="what is uploaded later than every wait is no orphan of an erase",
        file="include/firnline/operations/erase/unnamed.py",
        old="        return False  # also of a table that was relocated since: it is swept",
        new="        return True",
        breaks="Rows of a key that a process uploads after its sleep lie beside a complete "
        "certificate.",
        caught_by=_UNNAMED,
        unit=True,
    ),
    Mutation(
        name="a certificate trusts every footer of the table",
        file="include/firnline/operations/erase/unnamed.py",
        old="    return part.q >= search.replaced.seq",
        new="    return part.q >= 0",
        breaks="Rows of a key that a process uploads after its sleep lie beside a complete "
        "certificate.",
        caught_by=_UNNAMED,
        unit=True,
    ),
    Mutation(
        name="uploads of dead writers are those of live ones",
        file="include/firnline/operations/erase/leftovers.py",
        old="upload.began_ms < max(search.over_ms, dead))",
        new="upload.began_ms < search.over_ms)",
        breaks="What a sleeper has uploaded in part stays, seen by nobody, under a complete "
        "certificate.",
        caught_by=_UNNAMED,
        unit=True,
    ),
    Mutation(
        name="a certificate forgets what statistics had excluded",
        file="include/firnline/operations/erase/run.py",
        old="    return {*result.unchanged, *(snapshot.live.keys() - read)}",
        new="    return set(result.unchanged) - read",
        breaks="A certificate that is asked late waits for ever.",
        caught_by=_COMPLETION,
        unit=True,
    ),
    Mutation(
        name="a certificate names parts by their paths",
        file="include/firnline/operations/erase/known.py",
        old='    return name if _UUID.fullmatch(name) else ""',
        new="    return key if name else name",
        breaks="In a table that is partitioned by the keys its certificates hold them for ever.",
        caught_by=_COMPLETION,
        unit=True,
    ),
    Mutation(
        name="the digest of a certificate has no secret",
        file="include/firnline/operations/erase/keys.py",
        old="        if not secret:",
        new="        if secret:",
        breaks="A number of seven digits is found in a second from its certificate.",
        caught_by=("tests/unit/operations/erase/test_keys.py",),
        unit=True,
    ),
    Mutation(
        name="a certificate looks for staged files among parts only",
        file="include/firnline/operations/erase/leftovers.py",
        old="    found = chain(uploads.list(paths.data_dir), uploads.list_free(paths.small_dirs))",
        new="    found = chain(uploads.list(paths.data_dir))",
        breaks="A log file that a killed process had staged holds keys when all is certified.",
        caught_by=_COMPLETION,
        unit=True,
    ),
    Mutation(
        name="keys without a secret prove a certificate",
        file="include/firnline/operations/erase/proof.py",
        old="    if not secret and certificate.version > 1:",
        new="    if not secret and certificate.version < 1:",
        breaks="Whoever forgets the secret is told that the keys are others.",
        caught_by=("tests/unit/operations/erase/test_run.py",),
        unit=True,
    ),
    Mutation(
        name="clean-up takes the log file that says how old a record is",
        file="include/firnline/operations/cleanup/logs.py",
        old="    going -= _witnesses(snapshot, going)\n",
        new="",
        breaks="The keys of an erase never leave the log of a table that is maintained daily.",
        caught_by=_COMPLETION,
        unit=True,
    ),
    Mutation(
        name="a file of keys is counted after it was decoded",
        file="include/firnline/operations/erase/key_files.py",
        old="    if footer.num_rows > MAX_KEYS:",
        new="    if footer.num_rows < 0:",
        breaks="A file of keys takes the memory of a worker before it is refused.",
        caught_by=("tests/unit/operations/erase/test_key_files.py",),
        unit=True,
    ),
    Mutation(
        name="a plan shows the partitions of an erase by their names",
        file="include/firnline/operations/delete/plan.py",
        old=' = shown_partition(entry["partition"], self.columns)',
        new=' = str(entry["partition"])',
        breaks="Keys are shown in Airflow, where a partition has the name of one.",
        caught_by=_COMPLETION,
        unit=True,
    ),
    Mutation(
        name="an open certificate is no reason for a clean-up",
        file="include/firnline/operations/fleet/chores.py",
        old="        why := _to_delete(base, today) or _to_complete(base, today)",
        new="        why := _to_delete(base, today)",
        breaks="An erase of a table in which nothing else is to be deleted never ends by itself.",
        caught_by=(*_PENDING, *_END),
        unit=True,
    ),
    Mutation(
        name="a complete certificate is told after one look",
        file="include/firnline/operations/erase/attempt.py",
        old='    if certificate.status == "complete":',
        new='    if certificate.status == "void":',
        breaks="People are told of the end of an erase whose rows somebody has published again.",
        caught_by=_END,
        unit=True,
    ),
    Mutation(
        name="what is in the way of a certificate is told with paths",
        file="include/firnline/operations/erase/attempt.py",
        old="            why=without_paths(entry.why),",
        new="            why=entry.why,",
        breaks="A key that is the name of a partition gets into notes, alerts and XCom.",
        caught_by=_END,
        unit=True,
    ),
)
