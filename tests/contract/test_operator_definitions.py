"""The operator and CRDs on a real kube-apiserver: it works with its own alone, and says what it waits for."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.contract.foreign import kubedl_model_versions, kubedl_models, sedna_inference_models
from tests.contract.kube_apiserver import KubeApiserver, running_kube_apiserver
from tests.contract.operators import LASTING, gone, lease, made, operator, states, uninstall, until
from tests.contract.subjects import fresh_name, install_crds

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import CRDS, EVENTS, NAMESPACES, of_kind
from modelwright.api.crd import crd
from modelwright.api.kinds import INFERENCE_MODEL, KINDS, MODEL, MODEL_VERSION

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
VERSIONS, MODELS, SERVED = of_kind(MODEL_VERSION), of_kind(MODEL), of_kind(INFERENCE_MODEL)


@pytest.fixture(scope="module")
def server(kube_apiserver: KubeApiserver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserver]:
    """One of our own, whose CRDs come and go."""
    programs = kube_apiserver.kubectl.parent
    with running_kube_apiserver(programs, tmp_path_factory.mktemp("definitions")) as server:
        yield server


@pytest.fixture
async def client(server: KubeApiserver) -> AsyncIterator[KubernetesClient]:
    """An admin's, on a cluster without any CRD of our names."""
    async with KubernetesClient(load_kubeconfig([server.kubeconfig])) as client:
        await uninstall(client)
        yield client


@pytest.fixture
async def namespace(client: KubernetesClient) -> str:
    name = fresh_name("definitions")
    await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def of_kubedl(name: str) -> JSON:
    """A ModelVersion as people write it for KubeDL."""
    spec = {"modelName": "resnet", "createdBy": "user1", "imageRepo": "hub/resnet"}
    spec_storage = {"localStorage": {"path": "/foo", "nodeName": "kind-control-plane"}}
    metadata = {"name": name}
    body = {"apiVersion": VERSIONS.api_version, "kind": "ModelVersion", "metadata": metadata}
    return {**body, "spec": {**spec, "storage": spec_storage}}


async def test_crds_that_come_later_are_waited_for(
    server: KubeApiserver, client: KubernetesClient, tmp_path: Path
) -> None:
    with operator(server.kubeconfig, tmp_path, *LASTING) as waiting:
        await until(lambda: waiting.said("waiting: the CRD models.model.kubedl.io is missing"))
        page = waiting.page("/readyz")
        assert page.status == 503
        assert "kubectl apply --server-side --field-manager=modelwright -f deploy/install.yaml" in page.body
        assert all(kind.crd_name in page.body for kind in KINDS)
        assert await lease(client) is None
        await install_crds(client)
        await until(lambda: waiting.leads)


async def test_an_operator_that_waits_for_crds_ends_when_it_is_asked_to(
    server: KubeApiserver, client: KubernetesClient, tmp_path: Path
) -> None:
    with operator(server.kubeconfig, tmp_path, *LASTING) as waiting:
        await until(lambda: waiting.said("is missing"))
        waiting.send(signal.SIGTERM)
        assert await waiting.ended() == 0


async def test_with_kubedls_crds_nothing_at_all_is_touched_until_the_user_has_moved(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    for definition in (kubedl_models(), kubedl_model_versions()):
        await client.create(CRDS, "", definition)
    await made(client, VERSIONS, namespace, of_kubedl("mv-1"))
    before = await states(client, CRDS, VERSIONS, EVENTS)
    with operator(server.kubeconfig, tmp_path, *LASTING) as careful:
        await until(lambda: careful.said("nothing is touched"))
        page = careful.page("/readyz")
        assert page.status == 503
        for name in ("models.model.kubedl.io", "modelversions.model.kubedl.io"):
            assert f"the CRD {name} is not ours" in page.body
        assert "it may be KubeDL's" in page.body
        assert "docs/operator.md" in page.body
        assert careful.page("/healthz").status == 200, "a restart would not help"
        looked = reads(careful.page("/metrics").body)
        await until(lambda: reads(careful.page("/metrics").body) >= looked + 3 * len(KINDS))
        assert await lease(client) is None
        assert await states(client, CRDS, VERSIONS, EVENTS) == before
        metrics = careful.page("/metrics").body
        assert not any(f'method="{method}"' in metrics for method in ("POST", "PUT", "PATCH", "DELETE"))
        await uninstall(client)
        await install_crds(client)
        await until(lambda: careful.leads)


def reads(metrics: str) -> float:
    """How many answers to GET there were."""
    lines = [line for line in metrics.splitlines() if line.startswith("rest_client_requests_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if 'method="GET"' in line)


async def test_the_way_from_kubedl_leads_there(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    """As docs/operator.md has it: saved, CRDs replaced, created again, and worked with."""
    for definition in (kubedl_models(), kubedl_model_versions()):
        await client.create(CRDS, "", definition)
    owner = {"apiVersion": VERSIONS.api_version, "kind": "Model", "name": "resnet", "uid": "9", "controller": True}
    body = of_kubedl("mv-1")
    body["metadata"] |= {"ownerReferences": [owner], "labels": {"kept": "yes"}}
    await made(client, VERSIONS, namespace, body)
    status = {"status": {"image": "hub/resnet:v1c072", "imageBuildPhase": "ImageBuildSucceeded"}}
    await client.merge_patch(VERSIONS, namespace, "mv-1", status, subresource="status")
    with operator(server.kubeconfig, tmp_path, *LASTING) as careful:
        await until(lambda: careful.said("nothing is touched"))
        kinds = "models.model.kubedl.io,modelversions.model.kubedl.io"
        saved = json.loads(await kubectl(server, "get", kinds, "-n", namespace, "-o", "json"))
        (tmp_path / "specs.json").write_text(json.dumps(without_what_the_guide_deletes(saved)))
        await uninstall(client)
        await install_crds(client)
        await until(lambda: careful.leads)
        await kubectl(server, "create", "-f", str(tmp_path / "specs.json"))
        await until(lambda: stalled(client, namespace))
    found = await client.get(VERSIONS, namespace, "mv-1")
    assert found["spec"]["storage"]["localStorage"]["path"] == "/foo"
    assert found["metadata"]["labels"] == {"kept": "yes"}
    assert [each["name"] for each in found["metadata"]["ownerReferences"]] == ["resnet"]
    assert found["metadata"]["ownerReferences"][0]["uid"] != "9"


async def stalled(client: KubernetesClient, namespace: str) -> bool:
    """Whether the operator has said of the version that there is no registry, and has made its Model."""
    found = await client.get(VERSIONS, namespace, "mv-1")
    conditions = found.get("status", {}).get("conditions", [])
    reasons = [each["reason"] for each in conditions if each["type"] == "Stalled"]
    return reasons == ["NoRegistry"] and "ownerReferences" in found["metadata"]


def without_what_the_guide_deletes(saved: JSON) -> JSON:
    """What `jq` leaves, by the fields that the guide names."""
    guide = (Path(__file__).parents[2] / "docs/operator.md").read_text()
    found = re.search(r"jq 'del\(\.items\[\]\.status, \.items\[\]\.metadata\[(.*?)\]\)'", guide)
    assert found is not None
    deleted = json.loads(f"[{found[1]}]")
    for item in saved["items"]:
        item.pop("status", None)
        item["metadata"] = {name: value for name, value in item["metadata"].items() if name not in deleted}
    return saved


async def kubectl(server: KubeApiserver, *arguments: str) -> str:
    """What kubectl prints."""
    command = [str(server.kubectl), f"--kubeconfig={server.kubeconfig}", *arguments]
    done = await asyncio.to_thread(subprocess.run, command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


async def test_one_foreign_crd_among_ours_is_enough_to_touch_nothing(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    await client.create(CRDS, "", sedna_inference_models())
    await install_crds(client)
    await made(client, VERSIONS, namespace, of_kubedl("mv-1"))
    with operator(server.kubeconfig, tmp_path, *LASTING) as careful:
        await until(lambda: careful.said("nothing is touched"))
        body = careful.page("/readyz").body
        assert "the CRD inferencemodels.sedna.io is not ours" in body
        assert "it may be Sedna's" in body
        assert "models.model.kubedl.io" not in body
        assert "status" not in await client.get(VERSIONS, namespace, "mv-1")
        assert await lease(client) is None


async def test_a_crd_that_is_replaced_by_kubedls_stops_the_operator(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    await install_crds(client)
    with operator(server.kubeconfig, tmp_path, *LASTING) as leader:
        await until(lambda: leader.leads)
        await client.merge_patch(CRDS, "", MODEL_VERSION.crd_name, {"metadata": {"labels": None}})
        assert await leader.ended() == 1
        assert "DefinitionsLost" in leader.log
        assert "the CRD modelversions.model.kubedl.io is not ours" in leader.log
    assert (await lease(client) or {})["holderIdentity"] == "", "nobody has to wait for it"


async def test_a_crd_that_is_deleted_stops_the_operator_and_the_next_one_waits_for_it(
    server: KubeApiserver, client: KubernetesClient, tmp_path: Path
) -> None:
    await install_crds(client)
    with operator(server.kubeconfig, tmp_path, *LASTING) as leader:
        await until(lambda: leader.leads)
        await gone(client, CRDS, INFERENCE_MODEL.crd_name)
        assert await leader.ended() == 1
        assert "the CRD inferencemodels.sedna.io is missing" in leader.log
    with operator(server.kubeconfig, tmp_path, *LASTING, name="next") as waiting:
        await until(lambda: waiting.said("waiting: the CRD inferencemodels.sedna.io is missing"))


async def test_who_stands_by_notices_a_foreign_crd_too(
    server: KubeApiserver, client: KubernetesClient, tmp_path: Path
) -> None:
    await install_crds(client)
    with operator(server.kubeconfig, tmp_path, *LASTING, name="leader") as leader:
        await until(lambda: leader.leads)
        with operator(server.kubeconfig, tmp_path, *LASTING, name="other") as other:
            await until(lambda: other.stands_by)
            await client.merge_patch(CRDS, "", MODEL.crd_name, {"metadata": {"labels": None}})
            assert await other.ended() == 1
            assert "DefinitionsLost" in other.log


async def test_an_older_crd_is_worked_with_and_what_it_lacks_is_said(
    server: KubeApiserver, client: KubernetesClient, tmp_path: Path
) -> None:
    older = crd(MODEL_VERSION)
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]["properties"]["sizeBytes"]
    del schema["properties"]["status"]["properties"]["metrics"]
    await client.create(CRDS, "", older)
    await install_crds(client)
    with operator(server.kubeconfig, tmp_path, *LASTING) as leader:
        await until(lambda: leader.leads)
        assert "older than this operator: modelversions.model.kubedl.io lacks" in leader.log
        assert ".status.sizeBytes" in leader.log
