"""GET of collections: selectors, pages, versions, formats."""

from __future__ import annotations

import pytest
from tests.unit.embedded.api import MODELS, Client

pytestmark = pytest.mark.anyio
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
PARTIAL = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}


async def names(api: Client, **query: str) -> list[str]:
    answer = await api.get(MODELS, **query)
    assert answer.status == 200, answer.body
    return [item["metadata"]["name"] for item in answer.json["items"]]


async def refused(api: Client, status: int, **query: str) -> str:
    answer = await api.get(MODELS, **query)
    assert answer.status == status, answer.body
    assert answer.json["kind"] == "Status"
    return str(answer.json["message"])


async def test_a_list_has_a_version_and_everything_in_order(api: Client) -> None:
    for name in ("b", "a", "c"):
        last = await api.make(name)
    answer = await api.get(MODELS)
    assert (answer.json["apiVersion"], answer.json["kind"]) == ("model.kubedl.io/v1alpha1", "ModelList")
    assert answer.json["metadata"] == {"resourceVersion": last["metadata"]["resourceVersion"]}
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "b", "c"]
    assert answer.json["items"][2] == last


async def test_an_empty_list_is_a_list(api: Client) -> None:
    assert (await api.get(MODELS)).json["items"] == []
    assert (await api.ask("GET", MODELS, None, TABLE)).json["rows"] == []


async def test_all_namespaces_are_listed_together(api: Client) -> None:
    await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "another"}})
    await api.make("b")
    await api.make("z", MODELS.replace("default", "another"))
    found = (await api.get("/apis/model.kubedl.io/v1alpha1/models")).json["items"]
    assert [(m["metadata"]["namespace"], m["metadata"]["name"]) for m in found] == [("another", "z"), ("default", "b")]


async def test_pages_show_one_version_whatever_happens_between_them(api: Client) -> None:
    for name in "abcde":
        await api.make(name)
    first = (await api.get(MODELS, limit="2")).json
    assert first["metadata"]["remainingItemCount"] == 3
    await api.make("aa")
    await api.make("bb")
    await api.ask("DELETE", f"{MODELS}/d")
    await api.merge(f"{MODELS}/e", {"metadata": {"labels": {"changed": "yes"}}})
    pages, token = [first], first["metadata"]["continue"]
    while token:
        pages.append((await api.get(MODELS, **{"limit": "2", "continue": token})).json)
        token = pages[-1]["metadata"].get("continue", "")
    items = [item for page in pages for item in page["items"]]
    assert [item["metadata"]["name"] for item in items] == list("abcde")
    assert "labels" not in items[-1]["metadata"]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1


async def test_a_page_that_comes_too_late_is_expired(api: Client) -> None:
    for name in "abc":
        await api.make(name)
    token = (await api.get(MODELS, limit="1")).json["metadata"]["continue"]
    for number in range(100):
        await api.make(f"m-{number}")
    answer = await api.get(MODELS, **{"limit": "1", "continue": token})
    assert (answer.status, answer.json["reason"]) == (410, "Expired")


async def test_a_big_limit_is_answered_whole(api: Client) -> None:
    for number in range(3):
        await api.make(f"m-{number}")
    assert "continue" not in (await api.get(MODELS, limit="500")).json["metadata"]


async def test_an_exact_version_is_listed_as_it_was(api: Client) -> None:
    value = await api.make("a")
    await api.make("b")
    version = value["metadata"]["resourceVersion"]
    assert await names(api, resourceVersion=version, resourceVersionMatch="Exact") == ["a"]
    assert await names(api, resourceVersion=version, resourceVersionMatch="NotOlderThan") == ["a", "b"]
    assert await names(api, resourceVersion="0") == ["a", "b"]


async def test_options_that_cannot_be_honoured_are_refused(api: Client) -> None:
    assert "Too large resource version" in await refused(api, 504, resourceVersion="999")
    assert "resourceVersionMatch" in await refused(api, 422, resourceVersionMatch="Exact")
    assert "supported values" in await refused(api, 422, resourceVersion="1", resourceVersionMatch="Newest")
    assert "sendInitialEvents" in await refused(api, 422, sendInitialEvents="true")
    assert "number" in await refused(api, 400, limit="many")
    assert "number" in await refused(api, 400, resourceVersion="-1")
    assert "continue token" in await refused(api, 400, **{"continue": "bm9wZQ"})
    assert "continue token" in await refused(api, 400, **{"continue": "%%%"})
    assert "label selector" in await refused(api, 400, labelSelector="a b c")
    assert "field label not supported" in await refused(api, 400, fieldSelector="spec.x=1")
    assert "field selector" in await refused(api, 400, fieldSelector="metadata.name")


async def test_selectors_choose_and_are_not_counted(api: Client) -> None:
    for name in "abcd":
        await api.make(name, labels={"odd": "yes"} if name in "ac" else {})
    assert await names(api, labelSelector="odd") == ["a", "c"]
    assert await names(api, fieldSelector="metadata.name=b,metadata.namespace=default") == ["b"]
    page = (await api.get(MODELS, labelSelector="odd", limit="1")).json["metadata"]
    assert page["continue"]
    assert "remainingItemCount" not in page


async def test_a_table_has_columns_rows_and_the_metadata_of_each_object(api: Client) -> None:
    value = await api.make("a")
    table = (await api.ask("GET", MODELS, None, TABLE)).json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["columnDefinitions"][0]["name"] == "Name"
    (row,) = table["rows"]
    assert len(row["cells"]) == len(table["columnDefinitions"])
    assert row["cells"][0] == "a"
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"] == value["metadata"]
    one = (await api.ask("GET", f"{MODELS}/a", None, TABLE)).json
    assert [row["object"]["metadata"]["name"] for row in one["rows"]] == ["a"]


async def test_metadata_alone_can_be_asked_for(api: Client) -> None:
    value = await api.make("a")
    listed = (await api.ask("GET", MODELS, None, PARTIAL)).json
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"] == [
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]}
    ]


@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "text/html, application/*;q=0.5"])
async def test_plain_json_is_what_most_clients_get(api: Client, accept: str) -> None:
    assert (await api.ask("GET", MODELS, None, {"accept": accept})).json["kind"] == "ModelList"


@pytest.mark.parametrize("accept", ["text/html", "application/vnd.kubernetes.protobuf", "application/json;as=Pie"])
async def test_a_format_that_is_not_served_is_refused(api: Client, accept: str) -> None:
    answer = await api.ask("GET", MODELS, None, {"accept": accept})
    assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")


async def test_a_collection_is_deleted_as_far_as_it_is_selected(api: Client) -> None:
    for name in "abcd":
        await api.make(name, labels={"odd": "yes"} if name in "ac" else {})
    dry = await api.ask("DELETE", MODELS, {"dryRun": ["All"]})
    assert [item["metadata"]["name"] for item in dry.json["items"]] == list("abcd")
    answer = await api.ask("DELETE", MODELS, None, None, labelSelector="odd")
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "c"]
    assert await names(api) == ["b", "d"]
