"""What in a settings file seems to be a credential, which it must not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_OWNED_KEYS = (
    "access|account|api|client|customer|decryption|encryption|hmac|master|private|sas|secret|service"
    "|shared|signing|ssh|storage|subscription"
)
_CREDENTIAL = re.compile(
    r"\w*secrets?|\w*passw(?:or)?d|\w*passphrase|pwd|pass|sas|creds?|\w*credentials?|\w*tokens?"
    rf"|api_?key|(?:{_OWNED_KEYS})_?keys?|connection_string|conn_str|dsn|airflow_conn"
)
"""Names of credentials, in words joined by ``_``."""
_ABOUT_IT = re.compile(
    r"\w*providers?|class|impl|\w*file|\w*path|location|dir|folder|type|enabled|length|size|bits"
    r"|endpoint|ur[il]|interval|ratio|wait|ttl|expiration|duration|algorithm|ref|retriever"
)
"""Words behind such a name that make it a path, a provider or a length, not a credential."""
_AZURE = re.compile(r"fs\.azure\.(account\.key|sas(?!\.token\.provider))\.", re.ASCII)
"""Prefix of credentials on Azure; the rest is the name of an account or container."""
_AZURE_ACCOUNT = re.compile(r"\.[^.]+\.(?:blob|dfs)\..+$")
_BUCKET = re.compile(r"(fs\.s3a)\.bucket\.[^.]+(?=\.)")
_NAMED_SECRETS = re.compile(r"spark\.kubernetes\.(?:driver|executor)\.(?:secrets|secretKeyRef)\.")
"""Settings that name Kubernetes secrets for a pod, which is the recommended way."""
_ENVIRONMENT = re.compile(r"spark\.(?:executorEnv|yarn\.appMasterEnv|kubernetes\.driverEnv)\.")
_PATHS = {"GOOGLE_APPLICATION_CREDENTIALS", "PWD", "OLDPWD"}
"""Variables that hold a path in spite of their names."""
_VALUE = re.compile(
    r"://[^/\s@]*:[^/\s@]+@|-----BEGIN |AccountKey=|SharedAccessSignature=|[?&]sig=", re.IGNORECASE
)
_JAVA_OPTION = re.compile(r"-D([^\s=]+)=")
_REFERENCE = re.compile(r"\{\{\s*secrets/[^/{}]+/[^/{}]+\s*\}\}")
"""A secret that Databricks keeps, and fills in itself."""


def is_credential(name: str, value: str) -> bool:
    """Return True if a Spark setting seems to hold a credential of a store, a database or Spark.

    Judges by the words of the name: those of Hadoop's connectors (S3A, Azure, Google), of Spark
    and of environment variables (``spark.executorEnv.DB_PWD``). Names of classes, providers, files
    and Kubernetes secrets are not credentials. A value with a URL with a password, a private key,
    an Azure connection string or such a Java option (``-Dname=value``) is one; the name of a
    secret that Databricks keeps (``{{secrets/scope/key}}``) is none.

    Args:
        name: of the setting, from ``spark.`` on, or of a Java system property.
        value: of the setting.
    """
    if _VALUE.search(value) or any(is_credential(n, "") for n in _JAVA_OPTION.findall(value)):
        return True
    if _REFERENCE.fullmatch(value):
        return False
    if _AZURE.search(name):
        return True
    if _NAMED_SECRETS.match(name) or _ENVIRONMENT.sub("", name, count=1) in _PATHS:
        return False
    if name.endswith("encryption.key") and value.startswith("arn:"):
        return False  # S3A: the name of a key that KMS keeps
    stem = _BUCKET.sub(r"\1", _AZURE_ACCOUNT.sub("", name))
    words = [word.lower() for word in _WORDS.findall(stem)]
    return any(
        not any(_ABOUT_IT.fullmatch(later) for later in words[end:])
        for start in range(len(words))
        for end in (start + 1, start + 2)
        if _CREDENTIAL.fullmatch("_".join(words[start:end]))
    )


def refuse_credentials(given: Any, instead: str) -> None:  # noqa: ANN401 - what a file holds
    """Refuse a mapping of settings, at any depth of it, that seems to hold a credential.

    Args:
        given: the mapping, or anything within.
        instead: where the credential belongs.

    Raises ValueError, which names the setting and not its value.
    """
    for path, name, value in _leaves(given, (), ""):
        if is_credential(name, value):
            raise ValueError(f"{'.'.join(path)!r} looks like a credential{instead}")


def _leaves(
    given: Any,  # noqa: ANN401 - what a file holds
    path: tuple[str, ...],
    name: str,
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield path, name and text of each single value; an item of a list has the list's name."""
    if isinstance(given, dict):
        for key, value in given.items():
            yield from _leaves(value, (*path, str(key)), str(key))
    elif isinstance(given, list):
        for value in given:
            yield from _leaves(value, path, name)
    elif given is not None:
        yield path, name, str(given)
