"""What docs/benchmarks.md says of each section: what is measured and how.

What came out stands in the table alone: a text stays as it is when the figures change.
"""

from __future__ import annotations

DIGEST_GOAL = 5
"""Maximum CPU time of the digest in a proof, in percent of the kernel that only counts."""
_MERGE = """
100 snappy files, 10 M rows, 364 MB, in four groups of 25; each group becomes one part, {sorted}zstd
level 3, row groups of 1,048,576 rows. Inputs are fetched from and outputs uploaded to a local S3
server (versitygw) where a row says S3; both count. A process of its own each, warm: one round
before those that count; every other round in reverse order, and between two contenders the disk
gets what the first one left for it. firnline does all that a merge is: probe of the store, plan,
merge, commit, publication. It also reads its outputs back and compares all rows with those of the
inputs, which state their digests, as those of its own writers: no other contender does that, so it
stands there once more without (`merge.proof: counts`).
"""
TEXTS: dict[str, tuple[str, str]] = {
    "sorted": ("Sorted merge", _MERGE.format(sorted="sorted by (event, ts), ")),
    "sorted parts": (
        "Sorted merge of sorted parts",
        _MERGE.format(sorted="sorted by (event, ts), ").rstrip("\n")
        + """ Each input is sorted already and says so in its
footer, as all parts that firnline writes.
""",
    ),
    "unsorted": (
        "Unsorted merge",
        _MERGE.format(sorted="").rstrip("\n")
        + """ delta-rs writes no Bloom filters; it stands there with its table
on S3 and on local disk, and so does firnline.
""",
    ),
    "wide": (
        "Sorted merge of a hundred columns, cold",
        """
1.2 M rows in 60 snappy files, one partition: 30 integers, 20 doubles, 30 texts of few values, 8
that differ in nearly every row, 6 decimals, a list, a struct, a URL and three more; one file sorted
by (user_id, ts), zstd level 3, row groups of 131,072 rows. Whole processes on local disk, from
their start to their end. What each has written is read afterwards and holds the same rows; delta-rs
compact leaves them unsorted, z_order interleaves both columns.
""",
    ),
    "many small": (
        "Sorted merge of many small groups",
        """
Partitions of three sorted parts of 20 rows, each of which becomes one sorted part, on local disk,
so that what counts is the cost of a group and not of its rows. A process of its own each, warm: one
round before those that count, every other round in reverse order. firnline plans, merges, reads its
outputs back and commits; the others are given the paths of each group.
""",
    ),
    "append": (
        "Append of 60 files, cold",
        """
The files of "Sorted merge of a hundred columns" given to one command, which reads, sorts and writes
their rows; whole processes on local disk, from their start to their end. firnline commits.
""",
    ),
    "cold": (
        "Unsorted merge, cold",
        """
The files of the unsorted merge on local disk, by whole processes: from the start of the process to
its end, on caches that are warm. firnline alone plans and commits with a log; delta-rs and Iceberg
commit too.
""",
    ),
    "small": (
        "Small merge, cold",
        "\n3 files, 9,000 rows, a table on local disk; from the start of the process to its end.\n",
    ),
    "memory": (
        "Memory of a kernel",
        """
One group several times as large as `kernel_memory`, whose parts state their digests; peak is the
growth of the process since before the task. The proof reads the outputs back.
""",
    ),
    "proof": (
        "Proof of a merge",
        f"""
2.5 M rows of the sorted and unsorted merge in 25 files on local disk, one kernel of one thread;
inputs state their digests. Each in turn in one process, warm, every other round backwards. What a
row takes more than the row before is the median of the differences within a round, as a share of
the CPU time of the kernel that only counts. For the digest the goal is at most {DIGEST_GOAL} %
([RFC 13](rfcs/0013-proofs-of-merges.md)).
""",
    ),
    "snapshot": (
        "Snapshot of a million live parts",
        """
From 1,010 JSONL log files on local disk (ten that merged many, a thousand appends), each reading in
a process of its own, one thread.
""",
    ),
    "cleanup": (
        "Tombstone clean-up",
        """
100,000 dead parts of 1,000 bytes; firnline reads the log, probes the store, deletes and commits,
its rate unbounded; delta-rs vacuums as many files. From the start of the call. On S3 the deletes
alone take as long as all of delta-rs, whatever their number at once: the server is the limit. What
firnline does besides (log, plan, commit, checkpoint: 1.2 s on one core) comes before and after
them, since nothing may be deleted before all of it is known to be dead, and nothing forgotten
before it is gone. With the rate that a run has unless it is set, 3,000 a second, both are small.
""",
    ),
    "drop": (
        "Removal and TTL",
        """
A table of a million parts in a hundred partitions: a log file of 970,000 parts, 300 appends since.
firnline ttl is the whole process, from start to end; no JVM starts.
""",
    ),
    "lazy": (
        "Lazy delete of one user",
        """
The table of "Removal and TTL": 1 M parts, each of which may hold the user's rows. A delete is a
record in one transaction; the first folds 300 appends besides. From the start of the call.
""",
    ),
    "cluster": (
        "What filters read of clustered tables",
        """
2 M rows without partitions, appended in 100 parts and merged once; for each filter the parts whose
statistics do not exclude it, and their MB. The time is that of the merge, once, in this process.
""",
    ),
    "bloom": (
        "What filters read with bloom filters",
        """
2 M rows without partitions, merged once into one part, sorted by (event, ts), row groups of 262,144
rows; a million users, so that every row group's bounds hold every user. MB of the part, and MB
(requests) that a scan of all columns by each filter reads of it. The time is that of the merge,
once, in this process.
""",
    ),
    "appender": (
        "Appends from a service",
        """
Rows of four columns, given row by row, in lists, and in record batches, until the last is
acknowledged; delta-rs commits what it is given at once. SIGKILL: a service that appends row by row,
as fast as it can, is killed after some seconds.
""",
    ),
    "read": (
        "Reads of a table",
        """
3 M rows in 30 parts on local disk; the same question to firnline and, plain, to the same files by
their paths (DuckDB's read_parquet, pyarrow's dataset, spark.read.parquet). One process, one Spark
session on two cores with Spark's own settings for code generation, warm. The questions that end
with "10 M rows" are about 10 parts of a million rows: firnline reads the log besides, and this log
has fewer parts for more rows.
""",
    ),
    "mirror": (
        "Publications of mirrors",
        """
Tables on local disk whose parts are names in a log, as of "Snapshot of a million live parts". The
time is that of `run_mirror` in a process of its own whose libraries are loaded, so it is how long a
change waits for readers that is published at once. It reads the table's log, too; *besides the log*
is what the mirror adds to that, in CPU time and requests. Between the publications a merge replaces
100 parts by 5; in Iceberg these 100 stand in few manifests, and where they stand in all of them it
writes all of them again. Its catalog is in SQLite, whose reads and writes are no requests. Vectors:
1,000 real parts of 1,000 rows, of which lazy deletes hide a row in a hundred of some; readers read
all rows of two columns, warm.
""",
    ),
    "erase": (
        "Erase of 100,000 keys that are everywhere",
        """
10 M rows in 100 parts on local disk, 100,000 of a million users: every part holds some. Whole cold
processes, two threads each; DuckDB neither commits nor certifies.
""",
    ),
    "erase few": (
        "Erase of 100,000 keys in a tenth of the parts",
        """
The same with keys that stand in ten of the parts, and no statistics that say where.
""",
    ),
    "requests": (
        "Requests of erasure over 20 tables",
        """
20 tables of 250,000 rows in ten parts on local disk, and ten requests of 20 people who are in all
of them. Whole processes; both erase the same rows, and nothing is cleaned up.
""",
    ),
    "requests planned": (
        "Plan of a request of erasure over 20 tables of 10 M rows",
        """
`firnline erasure run --dry-run` of one request over 20 tables of 10 M rows, 1 M users and about 100
parts each on local disk, as a whole process from its start to its end. Parts are clustered by user
(`cluster_by`), so the bounds in the log say which may hold somebody: of the request of few people
they exclude nearly all, of that of every tenth user none. A plan reads logs, the request and its
keys, and no part: Bloom filters do not count, and a part that it counts may still hold nobody.
""",
    ),
    "replace": (
        "Replace of one hour of a day",
        """
A day of 100 M rows in 100 parts on local disk, up to two minutes late; one hour is replaced by as
many new rows. Whole cold processes, two threads each; DuckDB does not commit, and a rewrite with an
append is two commits.
""",
    ),
    "policy": (
        "Rules of compaction over a year",
        """
Simulated without I/O (`python -m benchmarks.policy`): for a year one append an hour into
partitions by day. Each cell has the parts of a closed partition (a week after its day, mean at the
end of the year), the bytes rewritten for each byte that arrived, and the parts of a partition of
the last seven days (mean). *On time*: half of the first append of a day is of the day before. *Late
tail*: every second append has 1 % of its bytes for an earlier day, Pareto distributed (1.2). *Late
batches*: once a day rows for each of the last seven days. *Trickle*: every fifth append has a few
rows of any day of the last 90. firnline's rows are decided by its own planner, every hour. The
others follow their documentation, with its defaults; a merged file has the size of its inputs.

* Delta ([OPTIMIZE](https://docs.delta.io/latest/optimizations-oss.html), [auto
  compaction](https://learn.microsoft.com/en-us/fabric/data-engineering/tune-file-size)): OPTIMIZE,
  here once a night, packs the files of a partition that are below 1 GiB into bins of 1 GiB and
  rewrites each bin of two or more. Auto compaction looks after a write at the partitions that it
  wrote to: 50 files below half of 128 MiB are packed into files of up to 128 MiB.
* Iceberg ([rewrite_data_files](https://iceberg.apache.org/docs/latest/spark-procedures/)), here
  once a night: files outside of 75 % to 180 % of 512 MiB are rewritten if there are at least 5 of
  them in the partition, or if they have more than 512 MiB together.
* Hudi ([file sizing](https://hudi.apache.org/docs/file_sizing),
  [clustering](https://hudi.apache.org/docs/clustering)): an insert fills files below 100 MiB up to
  120 MiB, and so writes them again. Clustering, which has to be switched on, plans after every
  fourth commit: files below 300 MiB in at most 30 groups of at most 2 GiB become files of up to
  1 GiB; groups of one file are left out here.

Targets differ (firnline and Iceberg 512 MiB, Delta and Hudi's clustering 1 GiB), so for 3 GB a day
the fewest parts are 6 or 3.
""",
    ),
}
