"""The folder of requests: what it holds is read whole, or an error names the object."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import StoreError, UsageError
from firnline.operations.erasure.folder import open_folder
from firnline.operations.erasure.record import Closed
from firnline.operations.erasure.run import ErasureFailedError, withdraw
from firnline.paths import RequestName, RequestPaths
from firnline.settings.erasure import ErasureSettings
from firnline.store.base import Deleted
from tests.support.people import RUN, shop

ID = "01a22b7b-fca8-7c8e-a6a5-7da338afbf6d"


def test_names_of_requests_are_parsed_as_they_are_made() -> None:
    paths = RequestPaths("lake/erasures")
    for name in (RequestName(ID, "request", "json"), RequestName(ID, "keys", "parquet")):
        assert paths.parse(paths.key(name)) == name
    assert paths.parse(f"lake/erasures/{ID}.note.json") is None
    assert paths.parse(f"lake/erasures/{ID[:-1]}.request.json") is None


def test_what_others_put_there_is_left_alone(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    (tmp_path / "requests/README.txt").write_text("ours")
    assert len(town.folder.requests().standing) == 1


def test_a_request_that_does_not_read_is_told_and_keeps_no_other_from_it(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    (path,) = (tmp_path / "requests").glob("*.request.json")
    path.write_text("{")
    other = town.ask("customer_id,email\n2,p2@x.y\n").request.id
    plan = town.look()
    assert ([each.request.id for each in plan.requests], len(plan.unread)) == ([other], 1)
    assert path.name in plan.unread[0]
    with pytest.raises(ErasureFailedError, match="requests that do not read"):
        town.run()
    assert town.rows("orders", "n") == [0, 1, 3, 4, 5]


def test_the_end_that_was_written_first_stands(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask("customer_id,email\n1,p1@x.y\n").request
    first = Closed(id=taken.id, closed_ms=1, closed_by=RUN, withdrawn="first")
    assert town.folder.close(first) == first
    other = Closed(id=taken.id, closed_ms=2, closed_by=RUN, withdrawn="second")
    assert town.folder.close(other) == first


def test_keys_that_cannot_be_deleted_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    town = shop(tmp_path)
    folder = town.folder
    denied = StoreError("denied", next_step="allow it")
    monkeypatch.setattr(
        folder.store, "delete_many", lambda keys: [Deleted(k, denied) for k in keys]
    )
    with pytest.raises(StoreError, match="could not be deleted"):
        folder.forget(ID)


def test_settings_without_a_folder_take_no_requests() -> None:
    with pytest.raises(UsageError, match="no folder for requests"):
        open_folder(ErasureSettings())


@pytest.mark.parametrize("request_id", ["", "x", ID])
def test_a_request_that_is_not_there_is_none(tmp_path: Path, request_id: str) -> None:
    with pytest.raises(UsageError, match="there is no request"):
        shop(tmp_path).folder.one(request_id)


def test_a_request_whose_keys_never_arrived_is_refused_with_the_next_step(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.ask("customer_id,email\n1,p1@x.y\n")
    next((tmp_path / "requests").glob("*.keys.csv")).unlink()
    (found,) = town.look().requests
    assert "never written" in found.why[0]
    assert town.run().tables == ()


def test_what_is_known_is_not_read_again(tmp_path: Path) -> None:
    town = shop(tmp_path)
    first = town.ask("customer_id,email\n1,p1@x.y\n").request.id
    known = {each.request.id: each for each in town.folder.requests().standing}
    second = town.ask("customer_id,email\n2,p2@x.y\n").request.id
    withdraw(town.people, first, "asked twice", RUN)
    folder, whole = town.folder, town.folder
    found = folder.requests(known)
    assert found == whole.requests()
    assert [(each.request.id, each.closed is None) for each in found.standing] == [
        (first, False),
        (second, True),
    ]
    # The end of the first and the second, and of all three records.
    assert [each.store.counters.as_dict()["get"] for each in (folder, whole)] == [2, 3]
