"""Access errors name the place as the user does: a folder is no bucket."""

from __future__ import annotations

from firnline.store.failures import Failure, to_error

DENIED = Failure("access", "permission denied")


def test_a_folder_is_called_a_folder() -> None:
    error = to_error(DENIED, "PUT of t/a", "file:///data")
    assert str(error) == (
        "PUT of t/a in file:///data failed: permission denied; let this user read and write that "
        "folder and what is in it"
    )


def test_a_bucket_is_called_a_bucket() -> None:
    assert "permissions on the bucket" in str(to_error(DENIED, "PUT of t/a", "s3://lake"))
