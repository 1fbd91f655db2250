"""What model servers say of their models is read, compared, and paired."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelwright.gateway.agree import agree
from modelwright.gateway.describe import Description, both, from_v1, from_v2
from modelwright.gateway.tensors import Spec

X = Spec("x", "FP32", (-1, 3))
LABEL, PROBABILITIES = Spec("label", "INT64", (-1,)), Spec("probabilities", "FP32", (-1, 10))


def model(inputs: tuple[Spec, ...] = (X,), outputs: tuple[Spec, ...] = (LABEL, PROBABILITIES)) -> Description:
    return Description(v2=True, inputs=inputs, outputs=outputs)


def test_models_of_the_same_names_agree_as_they_are() -> None:
    found = agree(model(), model())
    assert (found.fault, found.inputs) == ("", {"x": "x"})
    assert found.outputs == {"label": "label", "probabilities": "probabilities"}


def test_nothing_is_held_against_a_model_that_is_not_known() -> None:
    for pair in ((None, model()), (model(), None), (None, None)):
        found = agree(*pair)
        assert (found.fault, found.output("any"), found.has("any")) == ("", "any", True)


def test_tensors_of_other_names_are_paired_if_there_is_no_doubt() -> None:
    sklearn = model(
        (Spec("input", "FP64", (-1, 3)),), (Spec("predict", "INT64", (-1,)), Spec("predict_proba", "FP64", (-1, 10)))
    )
    found = agree(model(), sklearn)
    assert found.inputs == {"x": "input"}
    assert found.outputs == {"label": "predict", "probabilities": "predict_proba"}


def test_tensors_that_could_be_either_are_not_paired() -> None:
    twins = model(outputs=(Spec("a", "FP32", (-1, 10)), Spec("b", "FP32", (-1, 10)), LABEL))
    found = agree(model(), twins)
    assert found.outputs == {"label": "label"}
    assert not found.has("probabilities")


@pytest.mark.parametrize(
    ("cloud", "told"),
    [
        (model((Spec("x", "FP32", (-1, 4)),)), "input 'x'"),
        (model((Spec("x", "FP32", (-1, 3, 1)),)), "input 'x'"),
        (model((Spec("x", "BYTES", (-1, 3)),)), "input 'x'"),
        (model((X, Spec("y", "FP32", (-1,)))), "takes the inputs"),
        (model(outputs=(Spec("label", "BYTES", (-1,)), PROBABILITIES)), "output 'label'"),
        (model(outputs=(LABEL, Spec("probabilities", "FP32", (-1, 9)))), "output 'probabilities'"),
        (model(outputs=(Spec("mask", "FP32", (-1, 8, 8)),)), "nothing in common"),
        (model(outputs=()), "nothing in common"),
    ],
)
def test_models_that_do_not_go_together_are_told(cloud: Description, told: str) -> None:
    assert told in agree(model(), cloud).fault


def test_numbers_may_be_given_as_other_numbers_and_any_size_is_any_size() -> None:
    wide = model((Spec("x", "INT64", (-1, -1)),), (Spec("label", "INT32", (-1,)), Spec("probabilities", "FP64", None)))
    assert agree(model(), wide).fault == ""
    assert agree(wide, model()).fault == ""


def test_several_inputs_are_paired_by_name() -> None:
    a, b = Spec("a", "FP32", (-1, 2)), Spec("b", "BYTES", (-1,))
    assert agree(model((a, b)), model((b, a))).inputs == {"a": "a", "b": "b"}


# Descriptions -------------------------------------------------------------------------------------------------------


def info(dtype: str, *dims: int, **rest: Any) -> dict[str, Any]:
    return {"dtype": dtype, "tensor_shape": {"dim": [{"size": str(dim), "name": ""} for dim in dims], **rest}}


SIGNATURES = {
    "serving_default": {"inputs": {"x": info("DT_FLOAT", -1, 3)}, "outputs": {"label": info("DT_INT64", -1)}},
    "scores": {"inputs": {"x": info("DT_FLOAT", -1, 3)}, "outputs": {"p": info("DT_FLOAT", -1, 10)}},
    "every": {
        "inputs": {"x": info("DT_FLOAT", -1, 3)},
        "outputs": {"label": info("DT_INT64", -1), "p": info("DT_FLOAT", -1, 10)},
    },
    "other": {"inputs": {"y": info("DT_STRING", unknown_rank=True)}, "outputs": {"p": info("DT_FLOAT", -1, 10)}},
    "__saved_model_init_op": {"inputs": {}, "outputs": {"__init": info("DT_INVALID", unknown_rank=True)}},
}


def v1_metadata(signatures: Any = None) -> bytes:
    body = {
        "model_spec": {"name": "m", "signature_name": "", "version": "3"},
        "metadata": {"signature_def": {"signature_def": SIGNATURES if signatures is None else signatures}},
    }
    return json.dumps(body).encode()


def test_the_metadata_of_tensorflow_serving_is_understood() -> None:
    found = from_v1(v1_metadata())
    assert found is not None
    assert (found.protocols, found.versions) == (("v1",), ("3",))
    assert sorted(found.signatures) == ["every", "other", "scores", "serving_default"]
    assert found.inputs == (Spec("x", "FP32", (-1, 3)),)
    assert found.signatures["other"].inputs == (Spec("y", "BYTES", None),)
    assert found.outputs == (LABEL, Spec("p", "FP32", (-1, 10))), "what can be had with the default"


@pytest.mark.parametrize(
    ("asked", "outputs", "signature"),
    [
        ("serving_default", ("label",), "serving_default"),
        ("serving_default", ("label", "p"), "every"),
        ("serving_default", ("p",), "scores"),
        ("serving_default", ("nothing",), None),
        ("scores", ("p", "label"), "every"),
        ("other", ("p", "label"), None),
        ("unknown", ("p",), None),
    ],
)
def test_the_narrowest_signature_with_the_outputs_is_asked(
    asked: str, outputs: tuple[str, ...], signature: str | None
) -> None:
    found = from_v1(v1_metadata())
    assert found is not None
    assert found.signature_for(asked, outputs) == signature
    assert found.signature_for(asked, outputs) == signature, "the second time it is remembered"


def test_a_signature_that_is_not_the_default_is_enough() -> None:
    found = from_v1(v1_metadata({"mine": SIGNATURES["scores"]}))
    assert found is not None
    assert (found.inputs, found.outputs) == (None, None)
    assert [spec.name for spec in found.with_signature("mine")] == ["p"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"metadata": 1}',
        b'{"metadata": {"signature_def": {"signature_def": [1]}}}',
        b'{"metadata": {"signature_def": {"signature_def": {"a": 1}}}}',
        v1_metadata({"a": {"inputs": [1]}}),
        v1_metadata({"a": {"inputs": {"x": {"dtype": [], "tensor_shape": 7}}}}),
        v1_metadata({"a": {"outputs": {"x": {"tensor_shape": {"dim": [{"size": "many"}]}}}}}),
        b"[" * 100000,
    ],
)
def test_metadata_that_makes_no_sense_is_none(body: bytes) -> None:
    assert from_v1(body) is None
    assert from_v2(body, b"{}") is None


def test_the_metadata_of_the_open_inference_protocol_is_understood() -> None:
    body = {
        "name": "m",
        "versions": ["1", "2"],
        "platform": "p",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
        "outputs": [{"name": "y", "datatype": "BYTES"}],
    }
    found = from_v2(json.dumps(body).encode(), b'{"extensions": ["binary_tensor_data"]}')
    assert found == Description(
        v2=True, binary=True, inputs=(X,), outputs=(Spec("y", "BYTES", None),), versions=("1", "2")
    )
    plain = from_v2(json.dumps(body).encode(), b"no JSON")
    assert plain is not None
    assert not plain.binary


def test_a_server_that_speaks_both_is_one_model() -> None:
    second, first = model(), from_v1(v1_metadata())
    found = both(second, first)
    assert (found.protocols, found.outputs) == (("v1", "v2"), (LABEL, PROBABILITIES))
    assert both(None, None).protocols == ("v1",), "a server that says nothing is asked in the older protocol"
    assert both(second, None) is second
