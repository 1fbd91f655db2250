"""Whether what a build reports is an answer to what was asked of it.

It is written down where others read which image to run. A build runs in the user's namespace, where others than the
builder may have a hand in it: of what it says, only an image of the version's own repository and tag is believed.
"""

from __future__ import annotations

import math
import re

from modelwright.ports.workloads import BuildImage, BuildResult, Failure

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DOCKER_HUB = ("docker.io", "index.docker.io")
MAX_METRICS = 128
MAX_FILES = 2**31 - 1
MAX_BYTES = 2**63 - 1


def refused(result: BuildResult, action: BuildImage) -> Failure | None:
    """Why it is not believed, None if it is."""
    wrong = _wrong(result, action)
    if not wrong:
        return None
    message = (
        f"the build reports {wrong}, which is not what it was asked for ({action.repository}): somebody else answered "
        "for it, or the builder is of another version than the control plane"
    )
    return Failure(reason="ResultNotBelieved", message=message, retryable=True)


def names(repository: str) -> tuple[str, ...]:
    """How a reference may spell HOST/REPOSITORY: on Docker Hub, a name of one part is in `library`."""
    host, _, path = repository.partition("/")
    return (repository, f"{host}/library/{path}") if host in _DOCKER_HUB and "/" not in path else (repository,)


def _wrong(result: BuildResult, action: BuildImage) -> str:
    if not _DIGEST.fullmatch(result.digest):
        return f"the digest {result.digest[:100]!r}"
    if result.tag not in action.tags:
        return f"the tag {result.tag[:128]!r}"
    if result.resolved not in {f"{name}@{result.digest}" for name in names(action.repository)}:
        return f"the image {result.resolved[:300]!r}"
    if not (0 <= result.size_bytes <= MAX_BYTES and 0 <= result.files <= MAX_FILES):
        return f"{result.files} files of {result.size_bytes} bytes"
    if len(result.metrics) > MAX_METRICS or not all(map(math.isfinite, result.metrics.values())):
        return f"{len(result.metrics)} metrics that are too many, or no numbers"
    return ""
