"""What the operator and the agent in a Job say to each other.

The Job finds its task as JSON in an environment variable. It prints its progress as lines of JSON (`Progress` of
`ports.workloads`, `{"bytesDone": 1, "bytesTotal": 2}`) between lines for people, and ends with a `Report` as its
termination message (https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/).
It has no access to the Kubernetes API.
"""

from __future__ import annotations

import msgspec

from modelwright.ports.workloads import BuildImage, BuildResult, Failure

TASK_VARIABLE = "MODELWRIGHT_TASK"
BUILD_FOLDER = "/workspace/build"
"""Where a build finds the model, read-only. (Kaniko passes over what is mounted where an image has its files.)"""
SECRET_FOLDER = "/var/run/modelwright/push-secret"  # noqa: S105 - a path
"""Where a build finds the keys of its push secret as files: .dockerconfigjson, and ca.crt for a private CA."""
SHARED_FOLDER = "/workspace/shared"
"""What the containers of a Kaniko build tell each other: the Dockerfile, and Kaniko's digest file."""
TERMINATION_FILE = "/dev/termination-log"
TERMINATION_LIMIT = 4096
"""Bytes of a termination message that Kubernetes keeps."""


class BuildTask(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Pack `folder` and push the image. `action.source` is not used: what it names is mounted at `folder`.

    `secret` is a folder with the push secret's keys, which may be missing; `plain_http` lists the registries
    (HOST or HOST:PORT) that an admin lets be spoken to without TLS.
    """

    action: BuildImage
    folder: str = BUILD_FOLDER
    secret: str = ""
    plain_http: tuple[str, ...] = ()
    owner_uid: str = ""
    """Of the ModelVersion: what Kaniko has pushed is labelled with it, so that a retry knows its own."""
    destination: str = ""
    """Kaniko only: HOST/REPOSITORY:TAG that its container pushes to; the tag is a candidate of the action's."""


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How it ended: one of the two is there."""

    result: BuildResult | None = None
    failure: Failure | None = None
