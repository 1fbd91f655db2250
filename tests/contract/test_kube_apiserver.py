"""The control plane of the contract tests is a real one."""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.contract.kube_apiserver import KubeApiserver


def kubectl(server: KubeApiserver, cache: Path, *arguments: str) -> str:
    command = [str(server.kubectl), f"--kubeconfig={server.kubeconfig}", f"--cache-dir={cache}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.apiserver
def test_kubectl_reaches_it_with_its_kubeconfig(kube_apiserver: KubeApiserver, tmp_path: Path) -> None:
    kubectl(kube_apiserver, tmp_path, "create", "namespace", "reached")
    names = kubectl(kube_apiserver, tmp_path, "get", "namespaces", "-o", "name").split()
    assert {"namespace/default", "namespace/reached"} <= set(names)


@pytest.mark.apiserver
def test_a_user_without_rights_is_refused(kube_apiserver: KubeApiserver) -> None:
    headers = {"Authorization": f"Bearer {kube_apiserver.nobody_token}"}
    request = urllib.request.Request(f"{kube_apiserver.url}/api/v1/namespaces", headers=headers)
    tls = ssl.create_default_context(cafile=str(kube_apiserver.ca_file))
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, context=tls, timeout=60)
    with refused.value as answer:
        assert json.load(answer)["reason"] == "Forbidden"
