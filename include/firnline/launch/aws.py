"""What the platforms of AWS have in common: how they refuse, and the states of their jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from firnline.errors import EnvironmentFaultError, PlatformError, first_line
from firnline.launch.launcher import Progress, State

_PASSING = ("Throttl", "TooManyRequests", "ServiceUnavailable", "Internal", "ConcurrentRuns")
"""Parts of the codes of refusals that a retry helps against."""


@contextmanager
def opened(platform: str, section: str, account: str | None) -> Iterator[None]:
    """Convert what boto3 raises while its client is made within.

    Args:
        platform: its name in sentences.
        section: of ``spark`` in the settings.
        account: the Airflow connection; None for the usual chain.

    Raises:
        PlatformError: what gives the credentials does not answer.
        EnvironmentFaultError: no region, no such profile, an endpoint that is none.
    """
    from botocore.exceptions import NoRegionError

    if account is None:
        whose = "the usual AWS chain of this worker"
        step = (
            "set AWS_DEFAULT_REGION there, or let spark.conn_id name a connection of type aws with "
            "region_name in its extra"
        )
    else:
        whose = f"the Airflow connection {account!r} (spark.conn_id)"
        step = "set region_name in its extra"
    with asked(platform, section):
        try:
            yield
        except NoRegionError:
            raise EnvironmentFaultError(
                f"{platform} cannot be asked: {whose} has no region", next_step=step
            ) from None
        except ValueError as error:  # botocore's for a region or an endpoint that is none
            raise EnvironmentFaultError(
                f"{platform} cannot be asked: {first_line(error)}",
                next_step=f"correct region and endpoint of {whose}",
            ) from None


@contextmanager
def asked(platform: str, section: str) -> Iterator[None]:
    """Convert what boto3 raises within.

    Args:
        platform: its name in sentences.
        section: of ``spark`` in the settings.

    Raises:
        PlatformError: no answer, or a refusal that passes.
        EnvironmentFaultError: any other refusal; no credentials, or another fault of this machine.
    """
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionError,  # noqa: A004 - botocore's
        CredentialRetrievalError,
        HTTPClientError,
        IncompleteReadError,
        MetadataRetrievalError,
    )

    step = f"correct spark.{section} of the settings, or the rights of the account that asks"
    try:
        yield
    except ClientError as error:
        told = error.response.get("Error", {})
        code, text = told.get("Code", "unknown"), told.get("Message") or "without a reason"
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status >= 500 or any(part in code for part in _PASSING):
            raise PlatformError(
                f"{platform} has no room or no answer now: {code}: {text}",
                next_step="run it again",
            ) from None
        raise EnvironmentFaultError(
            f"{platform} refuses the request: {code}: {text}", next_step=step
        ) from None
    except (
        ConnectionError,
        CredentialRetrievalError,
        HTTPClientError,
        IncompleteReadError,
        MetadataRetrievalError,
    ) as error:
        raise PlatformError(
            f"{platform} does not answer: {first_line(error)}", next_step="run it again"
        ) from None
    except BotoCoreError as error:
        raise EnvironmentFaultError(
            f"{platform} cannot be asked: {first_line(error)}",
            next_step=f"{step}; spark.conn_id names its connection",
        ) from None


def progress(states: Mapping[str, State], state: str, reason: str | None) -> Progress:
    """Return how far a job is: a state that is not named is one on the way."""
    detail = ": ".join(filter(None, (state, (reason or "").strip())))
    return Progress(states.get(state, "running"), detail)
