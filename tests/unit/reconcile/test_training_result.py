"""What a training's ModelVersion tells of where it comes from, and what it keeps to itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.reconcile.make import task, training

from modelwright.api.kinds import decode, kind_of, to_dict
from modelwright.api.lineage import LineageDataset, SourceCode
from modelwright.api.model_version import ModelVersion
from modelwright.api.storage import NFS, Storage
from modelwright.api.training_model import Dataset, EnvVar
from modelwright.reconcile.training_parameters import parameters
from modelwright.reconcile.training_result import result_of

DIGEST = "sha256:" + "cd" * 32


def spec_of(*words: str, args: tuple[str, ...] = (), **changes: Any) -> Any:
    return training(command=words, args=args, **changes).spec


def test_lineage_says_what_was_really_read() -> None:
    asked = Dataset(name="asked", uri="https://data.test/a", sha256sum="ab" * 32)
    subject = training(
        base_model_version="mv-1",
        datasets=(Dataset(name="read", uri="https://data.test/r"), asked, Dataset(name="unknown", uri="file:///u")),
    )
    seen = task("t", "Succeeded", downloads={"/datasets/read": DIGEST, "/kubedl-base-model": "sha256:other"})
    lineage = result_of(subject, seen, "n").spec.lineage
    assert lineage is not None
    assert lineage.datasets == (
        LineageDataset(name="read", uri="https://data.test/r", digest=DIGEST),
        LineageDataset(name="asked", uri="https://data.test/a", digest="sha256:" + "ab" * 32),
        LineageDataset(name="unknown", uri="file:///u"),
    )
    assert (lineage.training_model, lineage.parents) == ("train", ("mv-1",))


def test_the_code_comes_from_annotations_in_the_words_of_oci() -> None:
    annotations = {
        "org.opencontainers.image.source": "https://me:hunter2@code.test/digits",
        "org.opencontainers.image.revision": "4f2c0de",
    }
    lineage = result_of(training(metadata={"annotations": annotations}), None, "n").spec.lineage
    assert lineage is not None
    assert lineage.source == SourceCode(repo="https://***@code.test/digits", revision="4f2c0de")
    none = result_of(training(), None, "n").spec.lineage
    assert none is not None
    assert none.source is None


def test_what_concerns_the_image_is_passed_on() -> None:
    subject = training(image_tag="stable", push_secret="login", storage=Storage(nfs=NFS(server="s", path="/m")))
    spec = result_of(subject, None, "n").spec
    assert (spec.image_repo, spec.image_tag, spec.push_secret) == ("modelhub/digits", "stable", "login")
    assert spec.storage == subject.spec.storage
    assert spec.model_name == "digits"


def test_options_and_variables_are_parameters() -> None:
    found = parameters(
        spec_of(
            "python",
            "train.py",
            args=(
                "--epochs",
                "3",
                "--lr=-0.1",
                "--bias",
                "-2",
                "--augment",
                "--layers=",
                "-v",
                "--",
                "--not-this",
                "x",
            ),
            env=(EnvVar(name="SEED", value="7"),),
            workers=2,
            framework_type="pytorch",
        )
    )
    command = "python train.py --epochs 3 --lr=-0.1 --bias -2 --augment --layers= -v -- --not-this x"
    assert found == {
        "command": command,
        "workers": "2",
        "frameworkType": "pytorch",
        "epochs": "3",
        "lr": "-0.1",
        "bias": "-2",
        "augment": "true",
        "layers": "",
        "SEED": "7",
    }


def test_the_command_is_quoted_as_a_shell_would() -> None:
    assert parameters(spec_of("sh", "-c", "echo 'a b'"))["command"] == """sh -c 'echo '"'"'a b'"'"''"""


@pytest.mark.parametrize(
    "name",
    ["PASSWORD", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "apiKey", "WANDB_API_KEY", "DB_PWD", "CREDENTIALS", "BASIC_AUTH"],
)
def test_what_looks_like_a_secret_goes_nowhere(name: str) -> None:
    hidden = "hunter2"
    option = "--" + name.lower()
    for words in ((option, hidden), (f"{option}={hidden}",), (option, hidden, "--epochs", "3")):
        found = parameters(spec_of("train", *words, env=(EnvVar(name=name, value=hidden),)))
        assert hidden not in str(found)
        assert name not in found
        assert option in found["command"]


@pytest.mark.parametrize("name", ["TOKENIZER", "MAX_TOKENS", "KEY_FRAMES", "AUTHORS", "PASSES", "HIDDEN_UNITS"])
def test_what_only_sounds_alike_is_told(name: str) -> None:
    assert parameters(spec_of("train", env=(EnvVar(name=name, value="7"),)))[name] == "7"


def test_a_login_in_a_url_is_hidden_everywhere() -> None:
    url = "https://me:hunter2@data.test/d?user=a@b.test"
    found = parameters(spec_of("train", "--data", url, env=(EnvVar(name="DATA", value=url),)))
    assert "hunter2" not in str(found)
    assert found["data"] == found["DATA"] == "https://***@data.test/d?user=a@b.test"


def test_a_variable_does_not_replace_an_option() -> None:
    found = parameters(spec_of("train", "--epochs=3", env=(EnvVar(name="epochs", value="4"),)))
    assert found["epochs"] == "3"


def test_the_command_is_not_replaced_by_an_option_of_that_name() -> None:
    assert parameters(spec_of("train", "--command=x", "--workers=9"))["command"] == "train --command=x --workers=9"
    assert "workers" not in parameters(spec_of("train", "--workers=9"))


WORDS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(["--a", "--a=b"]), max_size=20
)


@settings(max_examples=60, deadline=None)
@given(words=WORDS, values=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3000), max_size=140))
def test_any_training_makes_a_version_that_a_store_takes(words: list[str], values: list[str]) -> None:
    env = tuple(EnvVar(name=f"V{number}", value=value) for number, value in enumerate(values))
    subject = training(command=("train", *words), env=env)
    made = result_of(subject, None, "n")
    assert decode(kind_of(ModelVersion).type, to_dict(made)) == made
    assert made == result_of(subject, None, "n")


def test_the_largest_training_makes_a_version_that_a_store_takes() -> None:
    env = tuple(EnvVar(name=f"V{number}", value="é" * 8192) for number in range(128))
    annotations = {"org.opencontainers.image.source": "s" * 5000, "org.opencontainers.image.revision": "r" * 5000}
    subject = training(
        command=("x" * 8192,) * 256,
        args=tuple(f"--o{number}={'y' * 8000}" for number in range(256)),
        env=env,
        metadata={"annotations": annotations},
    )
    made = result_of(subject, None, "n")
    assert decode(kind_of(ModelVersion).type, to_dict(made)) == made
    assert len(msgspec.json.encode(made)) < 1_000_000
