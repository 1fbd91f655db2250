"""What of a Pod at the edge its user has asked for, told apart from what is the operator's: its images and its ways.

A Pod says both by annotations. One that differs from what it should be although nobody has asked for anything else is
made anew for the operator's sake, and that has time (`edge_turns`).
"""

from __future__ import annotations

from typing import Any

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers.labels import digest
from modelwright.ports.workloads import Container, Download, Gateway, ModelImage, ModelServer, Server

ASKED = "modelwright.dev/asked"
IMAGES = "modelwright.dev/images"


def wish_of(server: Server, node: str, containers: list[JSON]) -> dict[str, str]:
    """The annotations: what is asked for, and the images, each as a digest.

    What is asked for is spelled the same in each release: else an upgrade would look like everybody's wish.
    """
    resources = [server.resources.requests, server.resources.limits]
    secrets = [server.token_secret, server.tls_secret]
    wish = [node, server.placement.layer, server.port, resources, secrets, _of_program(server)]
    return {ASKED: digest(wish), IMAGES: digest([each["image"] for each in containers])}


def _of_program(server: Server) -> list[Any]:
    """What changes the Pod itself: what a running one can be told is no part of it."""
    program = server.program
    if isinstance(program, ModelServer):
        sources = [each.source for each in program.versions]
        pull = next((each.pull_secret for each in sources if isinstance(each, ModelImage) and each.pull_secret), "")
        download = next((each.secret for each in sources if isinstance(each, Download) and each.secret), "")
        return [program.model_name, program.framework, pull, download]
    if isinstance(program, Container):
        return [program.image, program.pull_secret, program.env]
    if isinstance(program, Gateway):
        sides = [[each.token_secret, each.tls_secret] for each in (program.edge, program.cloud)]
        return [program.kept.name if program.kept is not None else "", sides]
    return []
