"""Mistakes in the object store's client."""

from __future__ import annotations

from tests.mutations.model import Mutation

STORE = (
    Mutation(
        name="objects are read ahead by their number alone",
        file="include/firnline/store/transfer.py",
        old="if not following or (held is not None and not held.admits(following[0])):",
        new="if not following:",
        breaks="Reading a log of large files takes gigabytes of memory.",
        caught_by=("tests/unit/store/test_transfer.py",),
    ),
    Mutation(
        name="the log is read without a word of how large its files are",
        file="include/firnline/log/reader.py",
        old="self.store.get_many(sizes)",
        new="self.store.get_many(list(sizes))",
        breaks="The bound of what is read ahead is a guess by the files read so far.",
        caught_by=("tests/unit/log/test_reader.py",),
    ),
    Mutation(
        name="a create-only put overwrites",
        file="include/firnline/store/client.py",
        old='obstore.put(store, key, data, mode="create", use_multipart=False)',
        new='obstore.put(store, key, data, mode="overwrite", use_multipart=False)',
        breaks="Two transactions take one number, and the first is lost.",
        caught_by=("tests/unit/store/test_client.py",),
    ),
    Mutation(
        name="a put whose answer was lost counts as a rival's",
        file="include/firnline/store/create.py",
        old="        attempt.may_stand = stored == data\n",
        new="        attempt.may_stand = False\n",
        breaks="What was committed is reported as a conflict, and its parts are deleted.",
        caught_by=("tests/unit/store/test_create.py",),
    ),
    Mutation(
        name="a put does not say beforehand that it is sent",
        file="include/firnline/store/create.py",
        old="        attempt.may_stand = True\n        try:\n",
        new="        try:\n",
        breaks="Ctrl-C right after the put that commits deletes what was committed.",
        caught_by=("tests/unit/commit/test_outputs.py",),
    ),
    Mutation(
        name="a put that was refused after an unknown one counts as failed",
        file="include/firnline/store/create.py",
        old="            attempt.may_stand = number > 0\n",
        new="            attempt.may_stand = False\n",
        breaks="What is committed late has lost its parts.",
        caught_by=("tests/unit/store/test_create.py",),
    ),
    Mutation(
        name="a put that may have had its effect counts as failed",
        file="include/firnline/store/client.py",
        old="""            if not unclear or failures[-1].kind == "exists":
                raise
""",
        new="            raise\n",
        breaks="Parts of a commit that did happen are deleted.",
        caught_by=("tests/store/test_faults.py",),
        unit=False,
    ),
    Mutation(
        name="a batch that could not be deleted counts as deleted",
        file="include/firnline/store/client.py",
        old="            yield from (Deleted(key, error) for key in keys)",
        new="            yield from (Deleted(key) for key in keys)",
        breaks="Clean-up forgets objects that are still there, and they stay for ever.",
        caught_by=("tests/store/test_faults.py",),
        unit=False,
    ),
    Mutation(
        name="a listing ends with its first page",
        file="include/firnline/store/client.py",
        old="        if len(rows) < PAGE:",
        new="        if len(rows) <= PAGE:",
        breaks="Of a table with more than 1,000 log files the rows of the others are missing.",
        caught_by=("tests/unit/store/test_client.py",),
    ),
    Mutation(
        name="a folder marker is an object",
        file="include/firnline/store/listing.py",
        old="        elif _is_marker(meta.key, prefix):",
        new="        elif not meta.key:",
        breaks="A folder that somebody made in the console of the store makes each append fail.",
        caught_by=("tests/unit/store/test_listing.py",),
    ),
    Mutation(
        name="a listing that broke off begins anew",
        file="include/firnline/store/client.py",
        old="        after, first = max(row.key for row in rows), False",
        new="        first = False",
        breaks="Keys are given twice, or the listing ends with an error, where a page was lost.",
        caught_by=("tests/store/test_faults.py",),
        unit=False,
    ),
    Mutation(
        name="the second page of uploads begins behind the wrong upload",
        file="include/firnline/store/multipart.py",
        old="""                "UploadIdMarker": page["NextUploadIdMarker"],
""",
        new="",
        breaks="Abandoned uploads of one key beyond a page are never found, and are billed.",
        caught_by=("tests/unit/store/test_multipart.py",),
    ),
    Mutation(
        name="an upload that could not be aborted counts as aborted",
        file="include/firnline/store/multipart.py",
        old="""        except StoreError as error:
            return error
        return None
""",
        new="""        except StoreError:
            return None
        return None
""",
        breaks="The sweep reports success, and the bytes are billed on.",
        caught_by=("tests/unit/store/test_multipart.py",),
    ),
    Mutation(
        name="a bucket that is not there reads as empty",
        file="include/firnline/store/failures.py",
        old='''kind: Kind = "not-found" if code in _ABSENT_CODES else "access"''',
        new='''kind: Kind = "not-found"''',
        breaks="With a mistyped bucket a table looks as if somebody had deleted its objects.",
        caught_by=("tests/store/test_client_s3.py",),
        unit=False,
    ),
    Mutation(
        name="an object that was cut on its way is taken for whole",
        file="include/firnline/store/client.py",
        old="    if size != expected:",
        new="    if size > expected:",
        breaks="Half a part is staged, or half a log file is read.",
        caught_by=("tests/unit/store/test_sizes.py",),
    ),
    Mutation(
        name="a machine that slept sends its request again",
        file="include/firnline/store/requests.py",
        old="        if late() and state.outcome is not None:",
        new="        if state.outcome is None:",
        breaks="A commit lands hours after everybody has given it up.",
        caught_by=("tests/unit/store/test_retry.py",),
    ),
    Mutation(
        name="a store that ignores create-only puts passes the probe",
        file="include/firnline/store/probe.py",
        old='    return "accepts a second create-only put"',
        new="    return None",
        breaks="On such a store two transactions both commit.",
        caught_by=("tests/unit/store/test_probe.py",),
    ),
    Mutation(
        name="a listing follows links out of the folder",
        file="include/firnline/store/requests.py",
        old="            refuse_links_below(self._bucket, prefix)",
        new="            pass",
        breaks="A sweep of a table in a folder deletes files outside of it.",
        caught_by=("tests/unit/store/test_links.py",),
    ),
    Mutation(
        name="a request goes through a link",
        file="include/firnline/store/requests.py",
        old="            refuse_links(self._bucket, keys)",
        new="            pass",
        breaks="A file outside of a table in a folder is read for its part, or deleted.",
        caught_by=("tests/unit/store/test_links.py",),
    ),
    Mutation(
        name="a probe that slept blames the store",
        file="include/firnline/store/probe.py",
        old="    if clock.elapsed_ms() - began > _LIVES_MS:\n",
        new="    if clock.elapsed_ms() < began:\n",
        breaks="An operator is told to use another store, although a sweep deleted the probe.",
        caught_by=("tests/unit/store/test_probe.py",),
        unit=True,
    ),
)
