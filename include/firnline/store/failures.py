"""Classify obstore's exceptions: is a retry safe, may it have taken effect, what is the cause.

obstore 0.12 has one exception class for most failures, so status and error code are parsed from its
text. That text also holds the access key's id and the signed string; it is not passed on.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

from obstore.exceptions import (
    AlreadyExistsError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from firnline.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from firnline.next_steps import CHECK_ENDPOINT, STORE_LOG

Kind = Literal["not-found", "exists", "access", "transient", "range", "other"]

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>\s*([A-Za-z0-9_.-]{1,64})\s*</Code>")
_DELETE_CODE = re.compile(
    r"DeleteObjects request failed for key .*\(code: ([A-Za-z0-9_.-]{1,64})\)"
)
_BUSY_KEYS = re.compile(r"Server returned error response: \s*(?:<\?xml[^>]*>)?\s*<DeleteResult")
"""obstore takes an answer with a busy key for an error as a whole, and names no key."""
_HTTP_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_OS_ERROR = re.compile(r"([A-Z][A-Za-z -]+) \(os error (\d+)\)")

_TRANSIENT_STATUS = {429, 500, 502, 503, 504}
_SLOW_STATUS = {429, 503}
_TRANSIENT_CODES = {"InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout"}
_ABSENT_CODES = {None, "NoSuchKey", "NotFound", "BlobNotFound"}
EMPTY_SEGMENT = "empty segment"
"""Code of a failure because of a key with two slashes, which obstore cannot name."""
_NAME_RESOLUTION = ("dns error", "failed to lookup address", "Name or service not known")

_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_CREDENTIALS = re.compile(r"://[^@/]*@")
_NEXT_STEPS = {
    "NoSuchBucket": "create the bucket, or correct the table's root",
    "ContainerNotFound": "create the container, or correct the table's root",
    "InvalidBucketName": "correct the table's root",
    "InvalidAccessKeyId": "correct the access key of the connection or the AWS chain",
    "XAdminUserNotFound": "correct the access key of the connection or the AWS chain",
    "SignatureDoesNotMatch": "correct the secret key of the connection or the AWS chain",
    "AuthenticationFailed": "correct the key or SAS token of the connection or the environment",
    "ExpiredToken": "renew the session token",
    "InvalidToken": "renew the session token",
    "RequestTimeTooSkewed": "set this machine's clock",
    "PermanentRedirect": "set the bucket's region in the connection or AWS_REGION",
    "AuthorizationHeaderMalformed": "set the bucket's region in the connection or AWS_REGION",
    "dns": "correct the endpoint's host name",
    "tls": "write the endpoint with http://, or give the store a certificate",
    "certificate": "correct the endpoint, or install the certificate of its authority",
    "scheme": "write the endpoint with https://, or set allow_http",
    "read-only": "choose a root on another disk, or mount that one for writing",
    "credentials": "log in again, or correct the profile or role",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request."""

    kind: Kind
    reason: str
    """Status and error code, or why the connection failed, for messages."""
    code: str | None = None
    unsent: bool = False
    """True when the request certainly never reached the store."""
    per_key: bool = False
    """True for a batch delete that was carried out, with an error for at least one of its keys."""
    slow: bool = False
    """True when the store asks to send less: 429, 503 or ``SlowDown``, or a transient error of a
    key in a batch that was carried out otherwise."""


def classify(error: Exception) -> Failure:
    """Return the failure for an exception of obstore."""
    text = str(error)
    status_match, code_match = _STATUS.search(text), _CODE.search(text)
    status = int(status_match[1]) if status_match else None
    code = code_match[1] if code_match else None
    if isinstance(error, AlreadyExistsError):
        return Failure("exists", "it exists already", code)
    delete = _DELETE_CODE.search(text)
    if delete is not None:
        return of_key(delete[1])
    if _BUSY_KEYS.search(text) is not None:
        return of_key(code if code in _TRANSIENT_CODES else "InternalError")
    if status is not None:
        return _by_status(status, code)
    if isinstance(error, FileNotFoundError):
        return Failure("not-found", "not found")
    if isinstance(error, UnauthenticatedError) and "credential provider" in text:
        # Its text quotes the provider's exception, which may contain a secret.
        return Failure("access", "no credentials could be loaded", "credentials", unsent=True)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return Failure("access", "permission denied")
    if "Range" in text and ("StartTooLarge" in text or "Wanted range starting at" in text):
        return Failure("range", "the range begins after the end")
    return _without_answer(text)


def of_key(code: str) -> Failure:
    """Return the failure of one key of a batch delete, by its code."""
    slow = code in _TRANSIENT_CODES
    return Failure("transient" if slow else "access", code, code, per_key=True, slow=slow)


def _by_status(status: int, code: str | None) -> Failure:
    reason = f"{status} {code}" if code else str(status)
    if status in _TRANSIENT_STATUS or code in _TRANSIENT_CODES:
        return Failure("transient", reason, code, slow=status in _SLOW_STATUS or code == "SlowDown")
    if status == 404:
        kind: Kind = "not-found" if code in _ABSENT_CODES else "access"
        return Failure(kind, reason, code)
    if status == 416:
        return Failure("range", reason, code)
    # A 400 without a body is the answer to a HEAD with an expired token or the wrong region.
    if status in {301, 307, 401, 403} or code in _NEXT_STEPS or (status == 400 and code is None):
        return Failure("access", reason, code)
    return Failure("other", reason, code)


def _without_answer(text: str) -> Failure:
    if any(mark in text for mark in _NAME_RESOLUTION):
        return Failure("access", "the host name does not resolve", "dns", unsent=True)
    if "without LOCATION" in text:
        return Failure("access", "the bucket is in another region", "PermanentRedirect")
    if "contained empty path segment" in text:
        return Failure("other", "an object there has an empty segment in its key", EMPTY_SEGMENT)
    http = _HTTP_KIND.search(text)
    if http is not None:
        return _broken_connection(http[1], text)
    system = _OS_ERROR.search(text)
    if system is not None:
        reason = system[1].lower()
        if system[2] == "30":
            return Failure("access", reason, "read-only")
        return Failure("access" if system[2] in {"1", "13"} else "other", reason)
    return Failure("other", text.strip().split("\n", 1)[0][:200])


def _broken_connection(kind: str, text: str) -> Failure:
    if "certificate" in text:
        return Failure("access", "its certificate is not trusted", "certificate", unsent=True)
    if "InvalidContentType" in text:
        return Failure("access", "it does not speak TLS", "tls", unsent=True)
    if kind == "Unknown" and "Builder" in text:
        return Failure(
            "access", "requests to such an endpoint are not allowed", "scheme", unsent=True
        )
    if kind == "Connect":
        return Failure("transient", "nothing answers at the endpoint", unsent=True)
    reason = "no answer in time" if kind == "Timeout" else "the connection broke off"
    return Failure("transient", reason)


def _proxy(failure: Failure, word: str) -> str:
    """Name the proxies of the environment, where one may be why a request was not sent."""
    named = [f"{name}={os.environ[name]}" for name in _PROXIES if os.environ.get(name)]
    if not failure.unsent or not named:
        return ""
    # Credentials of a proxy stand before an @, and must not end up in a log.
    shown = ", ".join(_CREDENTIALS.sub("://", each) for each in named)
    return f", {word} the proxy of the environment ({shown})"


def to_error(failure: Failure, request: str, where: str) -> StoreError:
    """Return the error for a failure.

    ``request`` has the form ``GET of a/b``; ``where`` names bucket and endpoint, or a folder.
    """
    sentence = f"{request} in {where} failed: {failure.reason}"
    if failure.kind == "access":
        step = (
            "let this user read and write that folder and what is in it"
            if where.startswith("file://")
            else "check the credentials and their permissions on the bucket"
        )
        step = _NEXT_STEPS.get(failure.code or "", step)
        return StoreAccessError(sentence, next_step=f"{step}{_proxy(failure, 'or')}")
    if failure.kind == "transient":
        proxy = _proxy(failure, "and")
        return StoreUnavailableError(sentence, next_step=f"{CHECK_ENDPOINT}{proxy}")
    if failure.kind == "not-found":
        return ObjectNotFoundError(sentence, next_step="check the key, or whether it was deleted")
    if failure.kind == "exists":
        return ObjectExistsError(sentence, next_step="read it back to see who wrote it")
    if failure.code == EMPTY_SEGMENT:
        return StoreError(
            sentence,
            next_step="if a client of log version 1 wrote it, `firnline relocate` puts it where "
            "firnline reads it (on S3; elsewhere move it with the store's own tool); else move it "
            "out of the table",
        )
    if "no space left" in failure.reason:
        return StoreError(sentence, next_step="free some space on that disk")
    if where.startswith("file://"):
        return StoreError(sentence, next_step="see whether that folder and its disk are in order")
    return StoreError(sentence, next_step=STORE_LOG)
