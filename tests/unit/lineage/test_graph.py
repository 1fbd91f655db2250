"""The graph of a namespace: who was made from what, in both directions."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.lineage.make import (
    HEX,
    SOURCE,
    condition,
    decode,
    edges,
    graph,
    ids,
    joint,
    lists,
    served,
    training,
    version,
)

from modelwright.lineage.graph import Graph
from modelwright.lineage.lookup import choose, kind_of
from modelwright.lineage.nodes import Edge, Node, Source, Trace
from modelwright.ports.errors import Invalid, NotFound, Unavailable

DATA = f"dataset/{HEX[:12]}"


def story() -> dict[str, list[dict[str, Any]]]:
    """A base version, a training upon it, what serves its result, and what joins that with an older one."""
    data = {"name": "digits", "uri": "https://data.test/digits.csv", "digest": f"sha256:{HEX}"}
    made = {"trainingModel": "v2", "parents": ["v1"], "datasets": [data], "metrics": {"claimed": 1}}
    return {
        "models": [{"metadata": {"name": "digits"}}],
        "versions": [
            version("v1", createdBy="ann"),
            version("v2", createdBy="TrainingModel/v2", lineage=made),
        ],
        "trainings": [
            training(
                "v2",
                args=["--epochs", "3"],
                env=[{"name": "SEED", "value": "7"}, {"name": "HF_TOKEN", "value": "canary"}],
                baseModelVersion="v1",
                datasets=[{"name": "digits", "uri": "https://data.test/digits.csv"}],
                annotations={
                    "org.opencontainers.image.source": SOURCE["repo"],
                    "org.opencontainers.image.revision": SOURCE["revision"],
                },
                status={"phase": "Succeeded", "modelVersion": "v2"},
                workers=2,
            )
        ],
        "served": [
            served("edge", modelVersion="v1"),
            served("cloud", modelVersion="v2", status={"history": [{"source": {"modelVersion": "v1"}}]}),
        ],
        "joint": [
            joint("both", {"name": "edge"}, {"name": "cloud"}, conditions=condition("False", "EdgeModelNotReady"))
        ],
    }


def test_the_whole_way_from_data_to_answer_is_seen_from_the_middle() -> None:
    trace = graph(**story()).trace("modelversion/v2")
    assert edges(trace) == [
        f"{DATA} -dataset-> trainingmodel/v2",
        "inferencemodel/cloud -cloud-> jointinferenceservice/both",
        "modelversion/v1 -base-> trainingmodel/v2",
        "modelversion/v2 -serving-> inferencemodel/cloud",
        "trainingmodel/v2 -training-> modelversion/v2",
    ]
    assert ids(trace) == [
        DATA,
        "trainingmodel/v2",
        "modelversion/v1",
        "modelversion/v2",
        "inferencemodel/cloud",
        "jointinferenceservice/both",
    ]


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (DATA, {"trainingmodel/v2", "modelversion/v2", "inferencemodel/cloud", "jointinferenceservice/both"}),
        ("jointinferenceservice/both", {DATA, "trainingmodel/v2", "modelversion/v1", "modelversion/v2"}),
        ("inferencemodel/edge", {"modelversion/v1", "jointinferenceservice/both"}),
        ("model/digits", {"modelversion/v1", "modelversion/v2", "inferencemodel/edge", "trainingmodel/v2"}),
    ],
)
def test_every_node_is_a_place_to_begin(root: str, expected: set[str]) -> None:
    found = set(ids(graph(**story()).trace(root)))
    assert root in found
    assert expected <= found
    assert "model/digits" not in found - {root}


def test_nodes_say_what_is_known_and_no_secret() -> None:
    nodes = {node.id: node for node in graph(**story()).trace("modelversion/v2").nodes}
    trained = nodes["trainingmodel/v2"]
    assert (trained.command, trained.workers, trained.status) == ("python train.py --epochs 3", 2, "Succeeded")
    assert trained.parameters == {"SEED": "7", "HF_TOKEN": "(not shown)"}
    assert trained.source == Source(**SOURCE)
    made = nodes["modelversion/v2"]
    assert (made.status, made.files, made.size_bytes, made.metrics) == ("Ready", 2, 1234567, {"claimed": 1.0})
    assert nodes["jointinferenceservice/both"].status == "EdgeModelNotReady"
    assert nodes[DATA] == Node(
        id=DATA, kind="Dataset", name="digits", digest=f"sha256:{HEX}", uris=("https://data.test/digits.csv",)
    )


def test_what_was_measured_counts_more_than_what_was_claimed() -> None:
    status = {"metrics": {"loss": 0.5}}
    node = graph(versions=[version("v", lineage={"metrics": {"loss": 1, "f1": 2}}, status=status)]).node(
        "modelversion/v"
    )
    assert node.metrics == {"f1": 2.0, "loss": 0.5}
    assert node.status == "Pending"


def test_what_is_named_and_not_there_is_shown() -> None:
    made = {"trainingModel": "gone", "parents": ["lost"], "datasets": [{"name": "d"}]}
    trace = graph(versions=[version("v", lineage=made)], served=[served("s", modelVersion="none")]).trace(
        "modelversion/v"
    )
    assert {node.id for node in trace.nodes if node.missing} == {"trainingmodel/gone", "modelversion/lost"}
    dataset = next(node.id for node in trace.nodes if node.kind == "Dataset")
    assert edges(trace) == [
        f"{dataset} -dataset-> trainingmodel/gone",
        "modelversion/lost -base-> trainingmodel/gone",
        "trainingmodel/gone -training-> modelversion/v",
    ]
    assert [
        node.missing for node in graph(served=[served("s", modelVersion="none")]).trace("inferencemodel/s").nodes
    ] == [
        True,
        False,
    ]


def test_a_version_of_hand_has_its_inputs_itself() -> None:
    made = {"parents": ["v1"], "datasets": [{"name": "d", "uri": "file:///d"}], "source": SOURCE}
    trace = graph(versions=[version("v1"), version("v2", lineage=made, createdBy="ann")]).trace("modelversion/v2")
    assert edges(trace)[1] == "modelversion/v1 -base-> modelversion/v2"
    assert edges(trace)[0].endswith("-dataset-> modelversion/v2")
    assert next(node for node in trace.nodes if node.name == "v2").source == Source(**SOURCE)


def test_who_made_a_version_is_enough_to_find_the_training() -> None:
    trace = graph(versions=[version("v", createdBy="TrainingModel/t")], trainings=[training("t")]).trace(
        "modelversion/v"
    )
    assert edges(trace) == ["trainingmodel/t -training-> modelversion/v"]


def test_a_training_that_is_on_its_way_names_its_version() -> None:
    found = graph(trainings=[training("t", status={"phase": "Running", "modelVersion": "t"})]).trace("trainingmodel/t")
    assert edges(found) == ["trainingmodel/t -training-> modelversion/t"]


def test_inputs_that_a_training_does_not_name_stay_with_the_version() -> None:
    made = {"trainingModel": "t", "parents": ["v1", "v0"], "datasets": [{"name": "other", "uri": "x"}]}
    found = graph(versions=[version("v2", lineage=made)], trainings=[training("t", baseModelVersion="v1")])
    assert [text for text in edges(found.trace("modelversion/v2")) if "-base->" in text] == [
        "modelversion/v0 -base-> modelversion/v2",
        "modelversion/v1 -base-> trainingmodel/t",
    ]
    assert any(text.endswith("-dataset-> modelversion/v2") for text in edges(found.trace("modelversion/v2")))


# Data sets, files and images ------------------------------------------------------------------------------------------


def test_a_data_set_is_its_content_whatever_it_is_called() -> None:
    one = training("a", datasets=[{"name": "digits", "uri": "https://one.test/d", "sha256sum": HEX.upper()}])
    two = version(
        "b", lineage={"datasets": [{"name": "rows", "uri": "https://me:pw@two.test/d", "digest": f"sha256:{HEX}"}]}
    )
    found = graph(trainings=[one], versions=[two])
    (id_,) = found.find("rows")
    assert [id_] == found.find("digits") == [DATA]
    node = found.node(id_)
    assert node.uris == ("https://one.test/d", "https://two.test/d")
    assert node.notes == ("also called rows",)
    assert set(ids(found.trace(id_))) == {DATA, "trainingmodel/a", "modelversion/b"}


def test_two_contents_of_one_name_are_two_data_sets() -> None:
    found = graph(
        trainings=[training(name, datasets=[{"name": "d", "sha256sum": name * 64}]) for name in ("a", "b")]
        + [training("c", datasets=[{"name": "d", "uri": "https://c.test"}])]
    )
    assert len(found.find("d", ("Dataset",))) == 3
    with pytest.raises(Invalid) as caught:
        choose(found, "dataset/d")
    assert caught.value.reason == "NameAmbiguous"
    assert choose(found, f"dataset/{'a' * 12}") == f"dataset/{'a' * 12}"


def test_what_was_downloaded_says_more_than_what_was_asked_for() -> None:
    made = {"trainingModel": "t", "datasets": [{"name": "d", "uri": "u", "digest": f"sha256:{HEX}"}]}
    found = graph(
        versions=[version("t", lineage=made)], trainings=[training("t", datasets=[{"name": "d", "uri": "u"}])]
    )
    assert found.node(found.find("d")[0]).digest == f"sha256:{HEX}"
    assert len(found.find("d")) == 1


def test_hard_examples_come_from_the_service_that_keeps_them() -> None:
    uri = "file:///data/hard-examples/default/both/2026.jsonl"
    found = graph(
        joint=[joint("both", {"name": "e"}, {"name": "c"}, keptPath="/data/hard-examples/default/both")],
        trainings=[training("next", datasets=[{"name": "hard", "uri": uri}, {"name": "near", "uri": uri + ".d"}])],
    )
    trace = found.trace("trainingmodel/next")
    assert [text for text in edges(trace) if "hardExamples" in text] == [
        f"jointinferenceservice/both -hardExamples by path-> {id_}"
        for id_ in sorted(found.find("hard") + found.find("near"))
    ]
    elsewhere = training("t", datasets=[{"name": "d", "uri": "file:///data/hard-examples/default/bothx/a"}])
    other = graph(joint=[joint("both", {}, {}, keptPath="/data/hard-examples/default/both")], trainings=[elsewhere])
    assert "hardExamples" not in str(edges(other.trace("trainingmodel/t")))


def test_a_downloaded_file_is_traced_to_a_version_by_path_or_name() -> None:
    files = [
        {"version": "v1", "downloadURL": "https://files.test/v1.tgz", "sha256sum": HEX},
        {"version": "x", "downloadURL": "file:///models/v2/model%20a.tgz"},
    ]
    past = {"history": [{"source": {"file": files[1]}}]}
    found = graph(
        versions=[version("v1"), version("v2")],
        served=[served("edge", manifest=files, targetVersion="v1", status=past)],
    )
    assert edges(found.trace("inferencemodel/edge")) == [
        f"file/v1@{HEX[:12]} -serving-> inferencemodel/edge",
        f"{found.find('x')[0]} -served-> inferencemodel/edge",
        f"modelversion/v1 -download by name-> file/v1@{HEX[:12]}",
        f"modelversion/v2 -download by path-> {found.find('x')[0]}",
    ]


def test_a_file_of_the_same_name_for_another_model_is_no_download_of_it() -> None:
    files = [{"version": "v1", "downloadURL": "https://files.test/v1.tgz"}]
    found = graph(versions=[version("v1", model="other")], served=[served("s", manifest=files, targetVersion="v1")])
    assert not any("download" in text for text in edges(found.trace("inferencemodel/s")))


@pytest.mark.parametrize("image", ["hub/digits:v1", f"registry.test/any/where@sha256:{HEX}", "reg/hub@sha256:11"])
def test_an_image_is_traced_to_the_version_that_it_is(image: str) -> None:
    status = {"image": "hub/digits:v1", "imageDigest": f"sha256:{HEX}", "resolvedImage": "reg/hub@sha256:11"}
    found = graph(versions=[version("v1", status=status)], served=[served("s", image=image, modelVersion="ignored")])
    assert edges(found.trace("inferencemodel/s")) == ["modelversion/v1 -serving-> inferencemodel/s"]


def test_an_image_of_nobody_stands_for_itself() -> None:
    found = graph(served=[served("s", image="registry.test/a/b:c")])
    (image, _) = found.trace("inferencemodel/s").nodes
    assert (image.id, image.missing, image.image) == ("image/registry.test/a/b:c", False, "registry.test/a/b:c")
    assert choose(found, "image/registry.test/a/b:c") == image.id


def test_inline_models_are_found_by_the_name_that_they_get() -> None:
    long = "j" * 253
    found = graph(
        joint=[joint("j", {"spec": {"modelName": "x"}}, {"name": "c"}), joint(long, {"spec": {}}, {"spec": {}})],
        served=[served("j-edge")],
    )
    assert "inferencemodel/j-edge -edge-> jointinferenceservice/j" in edges(found.trace("jointinferenceservice/j"))
    assert {len(node.name) for node in found.trace(f"jointinferenceservice/{long}").nodes} == {253}


# Circles, depth and order ---------------------------------------------------------------------------------------------


def test_parents_that_go_in_a_circle_end() -> None:
    circle = [
        version(name, lineage={"parents": [parent]})
        for name, parent in (("a", "c"), ("b", "a"), ("c", "b"), ("d", "d"))
    ]
    trace = graph(versions=circle).trace("modelversion/a")
    assert ids(trace) == ["modelversion/a", "modelversion/b", "modelversion/c"]
    assert len(trace.edges) == 3
    assert edges(graph(versions=circle).trace("modelversion/d")) == ["modelversion/d -base-> modelversion/d"]


def test_depth_bounds_the_walk_and_says_what_is_left_out() -> None:
    chain = [version(f"v{n}", lineage={"parents": [f"v{n - 1}"]}) for n in range(1, 2000)]
    found = graph(versions=chain)
    near = found.trace("modelversion/v1000", 2)
    assert ids(near) == [f"modelversion/v{n}" for n in (1000, 1001, 1002, 998, 999)]
    assert near.cut == 2
    whole = found.trace("modelversion/v1000")
    assert (len(whole.nodes), whole.cut) == (2000, 0)


def test_the_order_in_which_things_are_listed_changes_nothing() -> None:
    objects = story()
    expected = graph(**objects).trace("modelversion/v1")
    for seed in range(5):
        for found in objects.values():
            random.Random(seed).shuffle(found)
        assert graph(**objects).trace("modelversion/v1") == expected


NAMES = st.sampled_from(["a", "b", "c"])
ANY = st.fixed_dictionaries(
    {},
    optional={
        "versions": st.lists(
            st.builds(
                lambda name, by, parents, training: version(
                    name, createdBy=by, lineage={"parents": parents, "trainingModel": training}
                ),
                NAMES,
                st.sampled_from(["", "TrainingModel/a", "TrainingModel/", "x"]),
                st.lists(NAMES, max_size=3),
                st.sampled_from(["", "a", "b"]),
            ),
            max_size=4,
        ),
        "trainings": st.lists(
            st.builds(lambda name, base: training(name, baseModelVersion=base), NAMES, NAMES), max_size=3
        ),
        "served": st.lists(st.builds(lambda name, made: served(name, modelVersion=made), NAMES, NAMES), max_size=3),
        "joint": st.lists(
            st.builds(lambda name, x, y: joint(name, {"name": x}, {"name": y}), NAMES, NAMES, NAMES), max_size=2
        ),
    },
)


@settings(max_examples=60)
@given(objects=ANY, root=st.sampled_from(["modelversion/a", "trainingmodel/b", "inferencemodel/c"]))
def test_a_trace_holds_the_ends_of_all_its_edges_and_only_what_hangs_together(objects: Any, root: str) -> None:
    trace = graph(**objects).trace(root)
    known = set(ids(trace))
    assert root in known
    assert {end for edge in trace.edges for end in (edge.source, edge.target)} <= known
    assert connected(trace) == known


def connected(trace: Trace) -> set[str]:
    """All that edges reach from the root."""
    reached, before = {trace.root}, 0
    while before != len(reached):
        before = len(reached)
        for edge in trace.edges:
            if {edge.source, edge.target} & reached:
                reached |= {edge.source, edge.target}
    return reached


# Names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("mv", "ModelVersion"),
        ("MODELVERSIONS", "ModelVersion"),
        ("modelversion.model.kubedl.io", "ModelVersion"),
        ("modelversions.v1alpha1.model.kubedl.io", "ModelVersion"),
        ("tm", "TrainingModel"),
        ("infm", "InferenceModel"),
        ("jis", "JointInferenceService"),
        ("mo", "Model"),
        ("dataset", "Dataset"),
        ("files", "File"),
        ("modelversion.other.group", ""),
        ("pods", ""),
        ("", ""),
    ],
)
def test_kinds_go_by_their_usual_names(word: str, kind: str) -> None:
    assert kind_of(word) == kind


def test_a_name_alone_is_enough_where_it_is_clear() -> None:
    found = graph(**story())
    assert choose(found, "edge") == "inferencemodel/edge"
    assert choose(found, "v2") == "modelversion/v2", "the training of its name made it, and is seen from there"
    assert choose(found, "tm/v2") == "trainingmodel/v2"
    assert choose(found, "digits") == "model/digits", "objects come before data sets"
    assert choose(found, "dataset/digits") == DATA


def test_a_name_of_several_things_is_refused_with_all_of_them() -> None:
    found = graph(versions=[version("x")], served=[served("x")])
    with pytest.raises(Invalid) as caught:
        choose(found, "x")
    assert "modelversion/x, inferencemodel/x" in caught.value.message
    unrelated = graph(versions=[version("x")], trainings=[training("x")])
    with pytest.raises(Invalid):
        choose(unrelated, "x")


def test_a_name_of_nothing_is_not_found_and_a_wrong_kind_is_told() -> None:
    found = graph(**story())
    for word in ("nothing", "mv/nothing", "dataset/v1"):
        with pytest.raises(NotFound):
            choose(found, word)
    for word in ("pod/v1", "mv/", "/v1"):
        with pytest.raises(Invalid) as caught:
            choose(found, word)
        assert caught.value.reason == "UnknownKind"


def test_what_is_only_named_can_be_asked_for() -> None:
    found = graph(versions=[version("v", lineage={"parents": ["lost"]})])
    assert choose(found, "lost") == "modelversion/lost"
    assert edges(found.trace("modelversion/lost")) == ["modelversion/lost -base-> modelversion/v"]


# Reading lists --------------------------------------------------------------------------------------------------------


def test_nulls_and_unknown_fields_are_passed_over() -> None:
    one = version("v", lineage=None, future={"x": 1})
    one["status"]["metrics"] = None
    one["spec"]["createdBy"] = None
    assert graph(versions=[one]).node("modelversion/v").created_by == ""


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"items": [7]}', b'{"items": [{"metadata": {}}]}'])
def test_what_is_no_list_is_told(body: bytes) -> None:
    with pytest.raises(Unavailable):
        decode({"ModelVersion": body})


def test_a_list_without_items_is_empty() -> None:
    assert decode({"ModelVersion": b'{"items": null}'}).versions == ()
    assert Graph(decode(lists())).find("x") == []


def test_what_a_status_says_wrongly_spoils_nothing() -> None:
    status = {"metrics": {"loss": "low"}, "conditions": {"not": "a list"}}
    node = graph(versions=[version("v", status=status, lineage={"parameters": [1], "source": 7})]).node(
        "modelversion/v"
    )
    assert (node.metrics, node.status, node.parameters, node.source) == ({}, "Pending", {}, None)


def test_the_document_keeps_its_keys() -> None:
    import msgspec

    document = json.loads(msgspec.json.encode(graph(**story()).trace("modelversion/v2")))
    assert list(document) == ["apiVersion", "kind", "root", "nodes", "edges"]
    assert document["edges"][0] == {"from": DATA, "to": "trainingmodel/v2", "role": "dataset"}
    assert Edge("a", "b", "c") == msgspec.json.decode(b'{"from":"a","to":"b","role":"c"}', type=Edge)
