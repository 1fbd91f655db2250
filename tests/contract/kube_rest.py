"""A plain client of the Kubernetes API for contract tests: one connection, JSON in and out, no judgement."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.contract.kube_apiserver import KubeApiserver

from modelwright.api.crd import crd
from modelwright.api.kind import Kind

DEADLINE_SECONDS = 60.0
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class KubeRest:
    """One connection to a kube-apiserver, as its administrator."""

    def __init__(self, server: KubeApiserver) -> None:
        address = urlsplit(server.url)
        tls = ssl.create_default_context(cafile=str(server.ca_file))
        self._connection = http.client.HTTPSConnection(address.hostname or "", address.port, timeout=60, context=tls)
        self._token = server.token

    def __enter__(self) -> KubeRest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        media_type: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> tuple[int, Any]:
        """Status and body of the answer."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": media_type, "Accept": accept}
        sent = None if body is None else json.dumps(body).encode()
        self._connection.request(method, f"{path}?{urlencode(query)}", sent, headers)
        with self._connection.getresponse() as answer:
            text = answer.read()
            # A group that is not served yet is a 404 in plain text.
            return answer.status, json.loads(text) if "json" in answer.headers["Content-Type"] else text.decode()

    def install(self, kind: Kind) -> dict[str, Any]:
        """Install a kind's CRD, if need be anew, and wait until it is served; gives the CRD."""
        options = {"fieldManager": "contract-tests", "force": "true"}
        path = f"{CRDS}/{kind.crd_name}"
        status, answer = self.ask("PATCH", path, crd(kind), media_type="application/apply-patch+yaml", **options)
        assert status in {200, 201}, answer
        served = f"/apis/{kind.api_version}/{kind.plural}"
        eventually(lambda: self.ask("GET", served)[0] == 200)
        return dict(self.ask("GET", path)[1])

    def make_namespace(self, name: str) -> None:
        """Make a namespace; one that exists is fine."""
        status, answer = self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert status in {201, 409}, answer


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds; fails after a generous deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.05)


def path_of(kind: Kind, namespace: str, name: str = "") -> str:
    """The path of a kind's objects, or of one of them."""
    many = f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.plural}"
    return f"{many}/{name}" if name else many
