"""The semantics of objects: identity, generations, conflicts, dry runs, subresources, namespaces."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.unit.embedded.api import MODELS, VERSIONS, Answer, Client

from modelwright.adapters.embedded.editing import MAX_OBJECT_BYTES
from modelwright.adapters.embedded.store import EmbeddedStore

pytestmark = pytest.mark.anyio
M = f"{MODELS}/m"
JSON_PATCH = {"content-type": "application/json-patch+json"}


def refused(answer: Answer, status: int, words: str = "") -> Any:
    assert answer.status == status, answer.body
    assert words in answer.json["message"]
    return answer.json


async def test_an_object_begins_with_an_identity(api: Client) -> None:
    metadata = (await api.make("m", uid="mine", generation=7, creationTimestamp="2000-01-01T00:00:00Z"))["metadata"]
    assert re.fullmatch(r"[0-9a-f-]{36}", metadata.pop("uid"))
    assert metadata == {
        "name": "m",
        "namespace": "default",
        "generation": 1,
        "creationTimestamp": "2024-02-29T12:00:00Z",
        "resourceVersion": "2",
    }


async def test_what_only_the_server_writes_stays_whatever_is_sent(api: Client) -> None:
    before = await api.make("m")
    sent = {**before, "status": {"versions": 5}, "metadata": {**before["metadata"], "generation": 9, "selfLink": "x"}}
    sent["metadata"] |= {"creationTimestamp": None, "deletionTimestamp": "2024-01-01T00:00:00Z", "managedFields": []}
    answer = await api.ask("PUT", M, sent)
    assert answer.json == before


async def test_the_generation_counts_changes_of_the_spec_only(api: Client) -> None:
    await api.make("m")
    assert (await api.merge(M, {"metadata": {"labels": {"a": "b"}}})).json["metadata"]["generation"] == 1
    assert (await api.merge(f"{M}/status", {"status": {"versions": 3}})).json["metadata"]["generation"] == 1
    assert (await api.merge(M, {"spec": {"description": "x"}})).json["metadata"]["generation"] == 2
    assert (await api.merge(M, {"spec": {"description": "x"}})).json["metadata"]["generation"] == 2
    assert (await api.get(M)).json["status"] == {"versions": 3}


async def test_a_write_that_changes_nothing_has_no_version(api: Client, store: EmbeddedStore) -> None:
    value = await api.make("m", labels={"a": "b"})
    version = store.resources.objects.version
    for method, url, body, headers in (
        ("PUT", M, value, None),
        ("PATCH", M, {}, {"content-type": "application/merge-patch+json"}),
        ("PATCH", M, [], JSON_PATCH),
        (
            "PATCH",
            f"{M}/status",
            {"metadata": {"labels": {"c": "d"}}},
            {"content-type": "application/merge-patch+json"},
        ),
    ):
        answer = await api.ask(method, url, body, headers)
        assert (answer.status, answer.json) == (200, value)
    assert store.resources.objects.version == version


async def test_an_old_version_or_another_uid_is_a_conflict(api: Client) -> None:
    old = await api.make("m")
    await api.merge(M, {"metadata": {"labels": {"a": "b"}}})
    refused(await api.ask("PUT", M, old), 409, "the object has been modified")
    refused(await api.merge(M, {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}}), 409)
    refused(await api.merge(M, {"metadata": {"uid": "another"}}), 409, "UID in precondition")


async def test_an_update_names_its_version_and_its_object(api: Client) -> None:
    value = await api.make("m")
    value["metadata"].pop("resourceVersion")
    answer = refused(await api.ask("PUT", M, value), 422, "must be specified for an update")
    assert answer["details"]["causes"][0]["field"] == "metadata.resourceVersion"
    refused(await api.merge(M, {"metadata": {"name": "other"}}), 400, "does not match the name on the URL")
    refused(await api.merge(M, {"kind": "Pod"}), 400, "kind")
    refused(await api.merge(f"{MODELS}/nothing", {}), 404)
    refused(await api.ask("PUT", f"{MODELS}/nothing", {"metadata": {"name": "nothing"}}), 404)


async def test_the_status_is_written_by_its_subresource_and_nothing_else_is(api: Client) -> None:
    before = await api.make("m")
    sent = {**before, "spec": {"description": "no"}, "status": {"versions": 2}}
    after = (await api.ask("PUT", f"{M}/status", sent)).json
    assert after["status"] == {"versions": 2}
    assert after["spec"] == before["spec"]
    refused(await api.merge(f"{M}/status", {"status": {"versions": -1}}), 422, "status.versions")
    refused(await api.merge(f"{M}/status", {"status": {"nonsense": 1}}, fieldValidation="Strict"), 400, "nonsense")
    assert (await api.get(f"{M}/status")).json == after


async def test_dry_runs_tell_what_would_be_and_change_nothing(api: Client, store: EmbeddedStore) -> None:
    value = await api.make("m")
    version = store.resources.objects.version
    created = await api.ask("POST", MODELS, {"metadata": {"name": "n"}, "spec": {}}, None, dryRun="All")
    assert created.status == 201
    assert created.json["metadata"]["uid"]
    assert "resourceVersion" not in created.json["metadata"]
    patched = (await api.merge(M, {"spec": {"description": "x"}}, dryRun="All")).json
    assert patched["spec"] == {"description": "x"}
    assert patched["metadata"]["generation"] == 2
    assert patched["metadata"]["resourceVersion"] == value["metadata"]["resourceVersion"]
    assert (await api.ask("DELETE", M, {"dryRun": ["All"]})).json["status"] == "Success"
    refused(await api.ask("POST", MODELS, {"metadata": {"name": "m"}, "spec": {}}, None, dryRun="All"), 409)
    assert (await api.get(M)).json == value
    assert store.resources.objects.version == version


async def test_all_faults_of_an_object_come_together(api: Client) -> None:
    metadata = {"name": "Bad_Name", "labels": {"a b": "c d"}, "finalizers": ["/"]}
    body = {"metadata": metadata, "spec": {"modelName": 7, "storage": {}}}
    causes = refused(await api.ask("POST", VERSIONS, body), 422)["details"]["causes"]
    fields = {cause["field"] for cause in causes}
    assert {"metadata.name", "metadata.labels", "metadata.finalizers", "spec.modelName", "spec.imageRepo"} <= fields
    assert all(cause["reason"].startswith("FieldValue") for cause in causes)


async def test_an_object_does_not_grow_beyond_what_is_stored(api: Client) -> None:
    await api.make("m")
    half = "x" * 200_000
    refused(await api.merge(M, {"metadata": {"annotations": {"a": half, "b": half}}}), 422, "metadata.annotations")
    assert 2 * len(half) < MAX_OBJECT_BYTES


async def test_names_are_generated_and_free(api: Client) -> None:
    names = set()
    for _ in range(20):
        answer = await api.ask("POST", MODELS, {"metadata": {"generateName": "m-"}, "spec": {}})
        names.add(answer.json["metadata"]["name"])
        assert answer.json["metadata"]["generateName"] == "m-"
    assert len(names) == 20
    assert all(re.fullmatch(r"m-[a-z0-9]{5}", name) for name in names)


# Namespaces -----------------------------------------------------------------------------------------------------------

NS = "/api/v1/namespaces"
OTHER = MODELS.replace("default", "other")


async def namespace(api: Client, name: str, **metadata: Any) -> Answer:
    return await api.ask("POST", NS, {"metadata": {"name": name, **metadata}})


async def test_there_is_always_a_default_namespace(api: Client) -> None:
    assert (await api.get(f"{NS}/default")).json["status"] == {"phase": "Active"}
    refused(await api.ask("DELETE", f"{NS}/default"), 403, "may not be deleted")
    refused(await api.ask("DELETE", f"{NS}/default", {"dryRun": ["All"]}), 403)


@pytest.mark.parametrize("name", ["", "Upper", "a.b", "x" * 64, "-a", "a-", "ä"])
async def test_a_namespace_has_the_name_of_a_label(api: Client, name: str) -> None:
    refused(await namespace(api, name), 422, "metadata.name")


async def test_an_empty_namespace_goes_at_once(api: Client) -> None:
    assert (await namespace(api, "other")).status == 201
    assert (await api.ask("DELETE", f"{NS}/other")).json["status"] == "Success"
    refused(await api.get(f"{NS}/other"), 404)
    refused(await api.ask("POST", OTHER, {"metadata": {"name": "m"}, "spec": {}}), 404, 'namespaces "other" not found')


async def test_a_namespace_takes_its_content_along_and_waits_for_what_is_held(api: Client) -> None:
    await namespace(api, "other")
    first = await api.make("a", OTHER)
    owner = {"apiVersion": first["apiVersion"], "kind": first["kind"], "name": "a", "uid": first["metadata"]["uid"]}
    await api.make("b", OTHER, ownerReferences=[owner])
    await api.make("held", OTHER, finalizers=["example.com/hold"])
    assert (await api.ask("DELETE", f"{NS}/other")).json["status"] == {"phase": "Terminating"}
    assert [item["metadata"]["name"] for item in (await api.get(OTHER)).json["items"]] == ["held"]
    refused(await api.ask("POST", OTHER, {"metadata": {"name": "c"}, "spec": {}}), 403, "being terminated")
    await api.merge(f"{OTHER}/held", {"metadata": {"finalizers": []}})
    refused(await api.get(f"{NS}/other"), 404)


async def test_a_namespace_with_a_finalizer_waits_for_that_too(api: Client) -> None:
    await namespace(api, "other", finalizers=["example.com/hold"])
    await api.make("m", OTHER)
    assert (await api.ask("DELETE", f"{NS}/other")).status == 200
    assert (await api.get(OTHER)).json["items"] == []
    assert (await api.get(f"{NS}/other")).json["status"]["phase"] == "Terminating"
    await api.merge(f"{NS}/other", {"metadata": {"finalizers": None}})
    refused(await api.get(f"{NS}/other"), 404)


async def test_of_a_namespace_only_the_metadata_is_the_users(api: Client) -> None:
    await namespace(api, "other")
    strategic = {"content-type": "application/strategic-merge-patch+json"}
    labels = {"metadata": {"labels": {"a": "b"}}}
    answer = await api.ask("PATCH", f"{NS}/other", labels, strategic)
    assert answer.json["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "other"}
    more = {**labels, "status": {"phase": "Gone"}, "spec": {"finalizers": []}}
    assert (await api.merge(f"{NS}/other", more)).json == answer.json
    directed = {"metadata": {"labels": {"$patch": "replace"}}}
    refused(await api.ask("PATCH", f"{NS}/other", directed, strategic), 415)
