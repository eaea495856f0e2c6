"""`make s3`: what is told to a shell, and what stays for the next start."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

import pytest

from firnline.store.access import StoreAccess
from tools import local_s3
from tools.bootstrap import REPO
from tools.s3server import free_port, is_taken


@pytest.fixture
def refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> pytest.CaptureFixture[str]:
    """What is printed by a start that must not come to building or starting a server."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("tools.gotools.GoTool.build", lambda _: pytest.fail("built"))
    return capsys


def test_the_keys_of_the_first_start_are_those_of_the_next_and_their_owners(tmp_path: Path) -> None:
    first, second = (local_s3.prepared(tmp_path / "s3", 9000) for _ in range(2))
    assert (first.access_key, first.secret_key) == (second.access_key, second.secret_key)
    other = local_s3.prepared(tmp_path / "other", 9000)
    assert other.secret_key != first.secret_key
    assert (tmp_path / "s3" / "keys").stat().st_mode & 0o777 == 0o600


def test_keys_whose_writing_was_interrupted_are_made_anew(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("AKHALF")
    assert local_s3.prepared(tmp_path, 9000).access_key != "AKHALF"


def test_the_file_for_a_shell_says_what_is_printed_and_is_its_owners(tmp_path: Path) -> None:
    server = local_s3.prepared(tmp_path, 9000)
    said = local_s3.let_in(server, tmp_path)
    file = local_s3.env_file(tmp_path)
    assert file.read_text() in said
    assert f". {file}\n" in said
    assert file.stat().st_mode & 0o777 == 0o600
    assert server.url("events") in said


def test_the_exports_are_all_that_firnline_needs(tmp_path: Path) -> None:
    server = local_s3.prepared(tmp_path, 9000)
    shell = "set -a; " + local_s3.exports(server) + "env"
    done = subprocess.run(["sh", "-c", shell], env={}, capture_output=True, text=True, check=True)
    env = dict(line.split("=", 1) for line in done.stdout.splitlines())
    access = StoreAccess.from_env(env)
    assert (access.endpoint, access.region) == ("http://127.0.0.1:9000", "us-east-1")
    assert (access.access_key, access.secret_key) == (server.access_key, server.secret_key)
    assert access.http_allowed
    assert access.path_style


def test_a_port_that_is_taken_says_so_before_anything_is_built(
    tmp_path: Path, refused: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        port = somebody.getsockname()[1]
        assert is_taken(port)
        assert local_s3.main(["--port", str(port), "--folder", str(tmp_path)]) == 1
    said = refused.readouterr()
    assert f"port {port} of this machine is taken" in said.err
    assert "make s3 PORT=" in said.err
    assert said.out == ""


@pytest.mark.parametrize("port", ["80000", "-1", "65536", "abc", "9000.5"])
def test_what_is_no_port_is_said_in_one_sentence(
    tmp_path: Path, refused: pytest.CaptureFixture[str], port: str
) -> None:
    assert local_s3.main([f"--port={port}", "--folder", str(tmp_path)]) == 1
    assert refused.readouterr().err == (
        f"s3: {port!r} is not a port: those are 1 to 65535; take another, such as `make s3 "
        "PORT=9001`\n"
    )


@pytest.mark.parametrize("spoilt", [".", "objects", "objects/lake", "lock"])
def test_a_folder_that_can_hold_no_objects_is_said_in_one_sentence(
    tmp_path: Path, refused: pytest.CaptureFixture[str], spoilt: str
) -> None:
    folder = tmp_path / "s3"
    wrong = folder / spoilt
    wrong.parent.mkdir(parents=True, exist_ok=True)
    if spoilt == "lock":
        wrong.mkdir()
    else:
        wrong.write_text("a file")
    assert local_s3.main(["--folder", str(folder), "--port", str(free_port())]) == 1
    (said,) = refused.readouterr().err.splitlines()
    assert said.startswith(f"s3: {folder} cannot be the folder of an S3: ")
    assert said.endswith(
        "; give a folder that you may write to: `python -m tools.local_s3 --folder FOLDER`"
    )


def test_a_folder_that_nobody_can_make_is_said_in_one_sentence(
    refused: pytest.CaptureFixture[str],
) -> None:
    assert local_s3.main(["--folder", "/proc/x", "--port", str(free_port())]) == 1
    assert refused.readouterr().err.startswith("s3: /proc/x cannot be the folder of an S3: ")


def test_a_second_server_over_the_same_folder_is_refused_and_leaves_its_address(
    tmp_path: Path, refused: pytest.CaptureFixture[str]
) -> None:
    with local_s3.alone(tmp_path):
        server = local_s3.prepared(tmp_path, 9000)
        local_s3.let_in(server, tmp_path)
        before = local_s3.env_file(tmp_path).read_text()
        assert local_s3.main(["--folder", str(tmp_path), "--port", "9001"]) == 1
    (said,) = refused.readouterr().err.splitlines()
    assert said == (
        f"s3: an S3 over {tmp_path} runs already; let a shell into it by `. "
        f"{tmp_path}/env`, end it with Ctrl-C in its terminal, or give this one another "
        "--folder"
    )
    assert local_s3.env_file(tmp_path).read_text() == before
    with local_s3.alone(tmp_path):  # it ended: the folder is free
        pass


def test_a_port_that_nobody_listens_on_is_not_taken() -> None:
    assert not is_taken(free_port())


def test_the_tutorial_and_make_have_its_port_and_bucket() -> None:
    tutorial = (REPO / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert f"http://127.0.0.1:{local_s3.PORT} with the bucket {local_s3.BUCKET}" in tutorial
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^s3: ## .*PORT={local_s3.PORT}", makefile, re.MULTILINE)
