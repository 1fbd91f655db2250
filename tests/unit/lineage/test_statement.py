"""Statements about images: what is written, and what is made of statements that anybody may have written."""

from __future__ import annotations

import base64
import json
import shlex
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelwright.lineage import attestation, materials, redaction
from modelwright.lineage.attestation import Attestation, read
from modelwright.lineage.statement import BUILD_TYPE, PREDICATE_TYPE, statement
from modelwright.ports.errors import Mismatch, Rejected
from modelwright.ports.workloads import Material, Provenance

HEX = "ab" * 32
DIGEST = f"sha256:{HEX}"
BASE = f"sha256:{'cd' * 32}"
COMMIT = "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d"
IMAGE = "127.0.0.1:5000/modelhub/digits"

FULL = Provenance(
    namespace="default",
    name="digits-v2",
    uid="1c072e5f-0000-4000-8000-000000000001",
    model_name="digits",
    created_by="TrainingModel/digits-v2",
    training_model="digits-v2",
    parents=(
        Material(name="digits-v1", uri=f"127.0.0.1:5000/modelhub/digits@{BASE}", digest=BASE),
        Material(name="not-built"),
    ),
    datasets=(
        Material(name="digits", uri="https://me:pass@data.test/digits.tar.gz", digest=f"sha256:{'ef' * 32}"),
        Material(name="spoken"),
    ),
    source=Material(name=COMMIT, uri="https://code.test/train.git"),
    parameters={"lr": "0.1", "epochs": "3", "command": "python train.py --epochs 3", "HF_TOKEN": "canary-5ecret"},
    metrics={"loss": 0.5, "claimed": 1.0},
)


def made(provenance: Provenance = FULL, **metrics: float) -> dict[str, Any]:
    return json.loads(statement(provenance, IMAGE, DIGEST, metrics))  # type: ignore[no-any-return]


def test_a_statement_has_the_fields_of_in_toto_and_slsa() -> None:
    found = made(loss=0.25)
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://slsa.dev/provenance/v1"
    assert found["subject"] == [{"name": IMAGE, "digest": {"sha256": HEX}}]
    definition, run = found["predicate"]["buildDefinition"], found["predicate"]["runDetails"]
    assert definition["buildType"] == BUILD_TYPE
    assert definition["externalParameters"] == {
        "model": "digits",
        "version": "digits-v2",
        "namespace": "default",
        "createdBy": "TrainingModel/digits-v2",
        "trainingModel": "digits-v2",
        "command": "python train.py --epochs 3",
        "parameters": {"HF_TOKEN": "(not shown)", "epochs": "3", "lr": "0.1"},
        "parents": ["digits-v1", "not-built"],
        "datasets": ["digits", "spoken"],
    }
    assert definition["resolvedDependencies"] == [
        {
            "name": "base/digits-v1",
            "uri": f"pkg:oci/digits@sha256%3A{'cd' * 32}?repository_url=127.0.0.1%3A5000/modelhub/digits",
            "digest": {"sha256": "cd" * 32},
        },
        {"name": "dataset/digits", "uri": "https://data.test/digits.tar.gz", "digest": {"sha256": "ef" * 32}},
        {"name": "source", "uri": f"git+https://code.test/train.git@{COMMIT}", "digest": {"gitCommit": COMMIT}},
    ]
    assert run["builder"] == {"id": "https://modelwright.dev/builders/native/v1"}
    assert run["metadata"] == {"invocationId": FULL.uid}
    (metrics,) = run["byproducts"]
    assert (metrics["name"], metrics["mediaType"]) == ("metrics.json", "application/json")
    assert json.loads(base64.b64decode(metrics["content"])) == {"claimed": 1, "loss": 0.25}


def test_no_secret_is_in_a_statement() -> None:
    text = statement(FULL, IMAGE, DIGEST, {}).decode()
    assert "canary" not in text
    assert "pass" not in text.replace("passed", "")


def test_the_same_provenance_gives_the_same_bytes() -> None:
    backwards = dict(reversed(FULL.parameters.items()))
    other = msgspec.structs.replace(FULL, parameters=backwards)
    assert statement(FULL, IMAGE, DIGEST, {"a": 1, "b": 2}) == statement(other, IMAGE, DIGEST, {"b": 2, "a": 1})


def test_a_version_that_says_little_makes_a_short_statement() -> None:
    bare = Provenance(namespace="default", name="v", uid="u", model_name="m", created_by="ann")
    found = made(bare)["predicate"]
    assert found["buildDefinition"]["externalParameters"].keys() == {"model", "version", "namespace", "createdBy"}
    assert found["buildDefinition"]["resolvedDependencies"] == []
    assert "byproducts" not in found["runDetails"]


def test_what_was_written_is_read_back() -> None:
    found = read(statement(FULL, IMAGE, DIGEST, {"loss": 0.25}), DIGEST)
    assert found == Attestation(
        builder="https://modelwright.dev/builders/native/v1",
        build_type=BUILD_TYPE,
        invocation=FULL.uid,
        namespace="default",
        version="digits-v2",
        model="digits",
        created_by="TrainingModel/digits-v2",
        training_model="digits-v2",
        command="python train.py --epochs 3",
        parameters={"HF_TOKEN": "(not shown)", "epochs": "3", "lr": "0.1"},
        parents=(
            Material(name="digits-v1", uri="127.0.0.1:5000/modelhub/digits", digest=BASE),
            Material(name="not-built"),
        ),
        datasets=(
            Material(name="digits", uri="https://data.test/digits.tar.gz", digest=f"sha256:{'ef' * 32}"),
            Material(name="spoken"),
        ),
        source=Material(name=COMMIT, uri="https://code.test/train.git", digest=f"gitCommit:{COMMIT}"),
        metrics={"claimed": 1.0, "loss": 0.25},
    )


def test_a_statement_about_another_image_is_refused() -> None:
    with pytest.raises(Mismatch) as caught:
        read(statement(FULL, IMAGE, BASE, {}), DIGEST)
    assert caught.value.reason == "StatementOfAnother"


def test_statements_of_other_builders_are_read_as_far_as_the_specification_goes() -> None:
    found = made()
    found["predicate"]["buildDefinition"] = {
        "buildType": "https://ci.test/workflow/v1",
        "externalParameters": {"model": ["not", "ours"]},
        "resolvedDependencies": [{"uri": "git+https://code.test/x@v1", "digest": {"sha1": "ab"}}, {"name": None}],
        "newField": {"is": "passed over"},
    }
    found["subject"] = [{"name": "other", "digest": {"sha256": "00"}}, *found["subject"]]
    read_back = read(json.dumps(found).encode(), DIGEST)
    assert read_back.build_type == "https://ci.test/workflow/v1"
    assert read_back.others == (
        Material(name="", uri="git+https://code.test/x@v1", digest="sha1:ab"),
        Material(name=""),
    )
    assert read_back.model == ""


def broken(**changes: Any) -> bytes:
    return json.dumps({**made(), **changes}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"_type": "https://in-toto.io/Statement/v0.1"}',
        b"[" * 100_000,
        b'{"_type":' + b"[" * 100_000,
        b'{"predicate":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        broken(predicateType="https://spdx.dev/Document"),
        broken(predicate=None),
        broken(predicate={"buildDefinition": [], "runDetails": {}}),
        broken(predicate={"buildDefinition": {"resolvedDependencies": [{"uri": "x"}] * 257}, "runDetails": {}}),
        broken(subject=[{"digest": {"sha256": 7}}]),
        b'{"x":"' + b"x" * attestation.MAX_BYTES + b'"}',
    ],
)
def test_what_is_no_such_statement_is_refused(data: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        read(data, DIGEST)
    assert caught.value.reason == "StatementInvalid"


@pytest.mark.parametrize("content", ["no base64!", base64.b64encode(b"[1]").decode(), base64.b64encode(b"{").decode()])
def test_metrics_that_are_none_are_refused(content: str) -> None:
    found = made(loss=1)
    found["predicate"]["runDetails"]["byproducts"][0]["content"] = content
    with pytest.raises(Rejected):
        read(json.dumps(found).encode(), DIGEST)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
PLACES = (
    ("subject",),
    ("predicate",),
    ("predicate", "buildDefinition", "externalParameters"),
    ("predicate", "buildDefinition", "externalParameters", "parents"),
    ("predicate", "buildDefinition", "resolvedDependencies"),
    ("predicate", "buildDefinition", "resolvedDependencies", 0, "uri"),
    ("predicate", "runDetails"),
    ("predicate", "runDetails", "metadata"),
    ("predicate", "runDetails", "byproducts", 0),
)


@settings(max_examples=150)
@given(place=st.sampled_from(PLACES), value=JSON)
def test_anything_anywhere_is_read_or_refused(place: tuple[str | int, ...], value: Any) -> None:
    document: Any = made(loss=1)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        read(json.dumps(document).encode(), DIGEST)
    except (Rejected, Mismatch) as error:
        assert error.reason in {"StatementInvalid", "StatementOfAnother"}


@pytest.mark.parametrize(
    ("repository", "revision", "uri"),
    [
        ("https://code.test/a/b", COMMIT, f"git+https://code.test/a/b@{COMMIT}"),
        ("git+ssh://git:canary@code.test/a", "main", "git+ssh://git@code.test/a@main"),
        ("git@code.test:a/b.git", "v1", "git+ssh://git@code.test/a/b.git@v1"),
        ("https://user:token@code.test/a", "", "git+https://code.test/a"),
        ("code.test/a", "v1", "code.test/a@v1"),
        ("", COMMIT, COMMIT),
    ],
)
def test_source_code_is_spelled_as_a_download_location(repository: str, revision: str, uri: str) -> None:
    assert materials.git_uri(repository, revision) == uri


@pytest.mark.parametrize("uri", ["pkg:oci/x", "pkg:pypi/x?repository_url=y", "https://[broken", "", "pkg:"])
def test_what_is_no_image_has_no_repository(uri: str) -> None:
    assert materials.repository_of(uri) == ""


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "hfToken",
        "password",
        "DB_PASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "api-key",
        "OPENAI_API_KEY",
        "privateKey",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert redaction.sounds_secret(name)


@pytest.mark.parametrize(
    "name", ["epochs", "max_tokens", "tokenizer", "key", "monkey", "secretary", "", "passes", "token_dim"]
)
def test_names_of_parameters_are_no_secrets(name: str) -> None:
    assert not redaction.sounds_secret(name)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("python train.py --lr 0.1", "python train.py --lr 0.1"),
        ("train --api-key abc --x 1", "train --api-key (not shown) --x 1"),
        ("train --password='a b' file", "train --password=(not shown) file"),
        ("HF_TOKEN=abc python x", "HF_TOKEN=(not shown) python x"),
        ("train --token --lr 1", "train --token --lr 1"),
        ("train --pad-token 0", "train --pad-token 0"),
        ("train --token=-abc", "train --token=(not shown)"),
        (shlex.join(["train", "--password", "it's a b", "x"]), "train --password (not shown) x"),
        (shlex.join(["train", "--password=it's a b", "x"]), "train '--password=(not shown)' x"),
        (shlex.join(["sh", "-c", "FOO=1 DB_PASSWORD=abc run"]), "sh -c 'FOO=1 DB_PASSWORD=(not shown) run'"),
        ("train --data https://u:p@ss@host/x", "train --data https://host/x"),
        ("train 'git+ssh://git@host/x?a=b@c'", "train 'git+ssh://git@host/x?a=b@c'"),
        ("get http://h/x?X-Amz-Signature=abc&y=1", "get http://h/x?X-Amz-Signature=&y=1"),
    ],
)
def test_values_of_secret_options_are_not_shown(command: str, shown: str) -> None:
    assert redaction.command(command) == shown


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://u:p@ss@host/x@1", "https://host/x@1"),
        ("ssh://git:pw@host/x", "ssh://git@host/x"),
        ("https://host/x?access_token=abc&rev=2", "https://host/x?access_token=&rev=2"),
        ("https://host/x?sv=1&sig=a%3D", "https://host/x?sv=1&sig="),
        ("file:///a/b@c?design=1", "file:///a/b@c?design=1"),
    ],
)
def test_secrets_in_uris_are_not_shown(uri: str, shown: str) -> None:
    assert redaction.uri(uri) == shown
    assert redaction.parameters({"DATA": uri}) == {"DATA": shown}


def test_the_kind_of_a_statement_can_be_told_without_reading_its_predicate() -> None:
    assert attestation.predicate_type(statement(FULL, IMAGE, DIGEST, {})) == PREDICATE_TYPE
