"""What a ModelVersion says of its build, for people."""

from __future__ import annotations

import re

from modelwright.api.model_version import ModelVersion
from modelwright.ports.workloads import Failure
from modelwright.reconcile import conditions, requests
from modelwright.reconcile.retries import ATTEMPTS

_COUNTED = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d)?)+")
"""A number, or a time such as 1m20.5s: what grows in a message while nothing else happens."""


def building(number: int) -> str:
    which = f", attempt {number} of {ATTEMPTS}" if number > 1 else ""
    return f"packing the model and pushing its image{which}"


def blocked(version: ModelVersion, failure: Failure, number: int) -> str:
    """What a build waits for. While only counts and times in it change, it stands as it was said first:
    the cluster repeats itself for as long as it waits, and each change would be a write."""
    which = f"attempt {number} of {ATTEMPTS}: " if number > 1 else ""
    text = f"{which}{failure.message}"[: conditions.MESSAGE_LIMIT]
    said = conditions.find(version.status.conditions, "Ready")
    if said is None or said.reason != failure.reason or _uncounted(said.message) != _uncounted(text):
        return text
    return said.message


def failed_attempt(failure: Failure, number: int) -> str:
    return f"attempt {number} of {ATTEMPTS} failed and is tried again: {failure.message}"


def given_up(version: ModelVersion, failure: Failure, number: int) -> str:
    """What was wrong, and how to have it tried again."""
    tried = f" (tried {number} times)" if number > 1 else ""
    name, namespace = version.metadata.name, version.metadata.namespace
    again = f"kubectl annotate mv/{name} -n {namespace} --overwrite {requests.REQUESTED_AT}=$(date +%s)"
    room = conditions.MESSAGE_LIMIT - len(tried) - len(again) - len(_MENDED)
    return f"{failure.message[:room]}{tried}{_MENDED}{again}"


_MENDED = "; once that is mended, make a new ModelVersion, or have this one tried again: "


def _uncounted(text: str) -> str:
    return _COUNTED.sub("#", text)
