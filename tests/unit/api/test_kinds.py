"""The structs: the seeds' names, and the way to bytes and back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from tests.unit.api.objects import SHAPED, STATUSES, Sample

from modelwright.api.admission import admit
from modelwright.api.inference_model import InferenceModel, InferenceModelSpec, InferenceModelStatus
from modelwright.api.kinds import KINDS, MODEL, MODEL_VERSION, by_kind, by_plural, decode, encode, kind_of, to_dict
from modelwright.api.meta import Metadata
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion, ModelVersionSpec
from modelwright.api.storage import LocalStorage, Storage

SEEDS = Path(__file__).parents[3] / "examples" / "seeds"


def test_a_kind_is_found_by_each_of_its_names() -> None:
    for kind in KINDS:
        assert by_kind(kind.api_version, kind.kind) is kind
        assert by_plural(kind.group, kind.plural) is kind
        assert kind_of(kind.type) is kind
    assert kind_of(Model()) is MODEL
    assert by_kind("v1", "Pod") is None
    assert by_plural("model.kubedl.io", "pods") is None
    with pytest.raises(KeyError):
        kind_of("Model")


def test_a_kinds_struct_says_its_own_version_and_kind() -> None:
    for kind in KINDS:
        defaults = {field.name: field.default for field in msgspec.structs.fields(kind.type)}
        assert (defaults["api_version"], defaults["kind"]) == (kind.api_version, kind.kind)


def test_names_differ_between_kinds() -> None:
    names = [name for kind in KINDS for name in (kind.plural, kind.singular, *kind.short_names)]
    assert len(names) == len(set(names))


def test_the_model_version_of_the_seed_is_read_as_it_stands() -> None:
    version = decode(ModelVersion, yaml.safe_load((SEEDS / "modelversion.yaml").read_text()))
    storage = Storage(local_storage=LocalStorage(path="/foo", node_name="kind-control-plane"))
    spec = ModelVersionSpec(model_name="model1", created_by="user1", image_repo="modelhub/resnet", storage=storage)
    assert version == ModelVersion(metadata=Metadata(name="mv-3", namespace="default"), spec=spec)
    assert spec.builder == "native"
    assert storage.local_storage
    assert storage.local_storage.mount_path == "/kubedl-model"


def test_the_inference_model_of_the_seed_is_read_as_it_stands() -> None:
    sent = yaml.safe_load((SEEDS / "inferencemodel.yaml").read_text())
    model = decode(InferenceModel, sent)
    assert model.spec.image == ""
    assert [file.version for file in model.spec.manifest] == ["3", "4"]
    assert model.spec.manifest[1].download_url == "http://192.168.1.15/model_emotion_4.tar.gz"
    written = to_dict(model)
    assert written["spec"] == {key: value for key, value in sent["spec"].items() if value not in ("", 1)}
    assert list(written)[:2] == ["apiVersion", "kind"]


@pytest.mark.parametrize("sample", [*SHAPED, *STATUSES], ids=lambda sample: sample.id)
def test_what_is_admitted_survives_the_way_to_bytes_and_back(sample: Sample) -> None:
    stored = admit(sample.kind, sample.sent, None).object | {"status": sample.sent.get("status", {})}
    read = decode(sample.kind, stored)
    assert decode(sample.kind, encode(read)) == read
    assert decode(sample.kind, msgspec.json.encode(stored)) == read


def test_the_keys_are_the_seeds_to_the_letter() -> None:
    storage = {"AWSEfs": {"volumeHandle": "fs-e8a95a42:/dir1", "attributes": {"a": "b"}}}
    sent = {"metadata": {"name": "v"}, "spec": {"modelName": "m", "imageRepo": "r", "storage": storage}}
    assert to_dict(decode(MODEL_VERSION, sent))["spec"]["storage"] == storage


def test_null_counts_as_absent_in_bytes_and_dicts() -> None:
    sent = {"metadata": {"name": "m", "labels": None}, "spec": {"description": None}, "status": None}
    assert decode(Model, sent) == decode(Model, msgspec.json.encode(sent)) == Model(metadata=Metadata(name="m"))


def test_a_count_of_zero_is_written() -> None:
    spec = InferenceModelSpec(model_name="m", deploy_to_layer="cloud", framework_type="onnx", replicas=0)
    written = to_dict(InferenceModel(spec=spec, status=InferenceModelStatus(url="http://h")))
    assert written["spec"]["replicas"] == 0
    assert written["status"] == {"url": "http://h", "replicas": 0, "readyReplicas": 0}


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(ModelVersion, {"spec": {}})
    with pytest.raises(msgspec.DecodeError):
        decode(Model, b"{")
    with pytest.raises(msgspec.ValidationError):
        decode(Model, {"metadata": {"creationTimestamp": "2026-01-01T00:00:00"}})
