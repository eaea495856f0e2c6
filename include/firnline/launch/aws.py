"""What the platforms of AWS have in common: how they refuse, and the states of their jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from firnline.errors import EnvironmentFaultError, PlatformError, first_line
from firnline.launch.launcher import Progress, State

_PASSING = ("Throttl", "TooManyRequests", "ServiceUnavailable", "Internal", "ConcurrentRuns")
"""Parts of the codes of refusals that a retry helps against."""


@contextmanager
def asked(platform: str, section: str) -> Iterator[None]:
    """Convert what boto3 raises within.

    Args:
        platform: its name in sentences.
        section: of ``spark`` in the settings.

    Raises:
        PlatformError: no answer, or a refusal that passes.
        EnvironmentFaultError: any other refusal; no credentials.
    """
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        NoRegionError,
        ParamValidationError,
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
    except (NoCredentialsError, NoRegionError, ParamValidationError) as error:
        raise EnvironmentFaultError(
            f"{platform} cannot be asked: {first_line(error)}",
            next_step=f"{step}; spark.conn_id names its connection, with region_name in the extra",
        ) from None
    except BotoCoreError as error:
        raise PlatformError(
            f"{platform} does not answer: {first_line(error)}", next_step="run it again"
        ) from None


def progress(states: Mapping[str, State], state: str, reason: str | None) -> Progress:
    """Return how far a job is: a state that is not named is one on the way."""
    detail = ": ".join(filter(None, (state, (reason or "").strip())))
    return Progress(states.get(state, "running"), detail)
