"""The runtime catalogue: templates, an admin's files, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from modelwright.adapters.kubernetes.servers.catalogue import (
    FixedCatalogue,
    Runtime,
    command_of,
    live_path_of,
    ready_path_of,
)
from modelwright.adapters.kubernetes.servers.catalogue_builtin import RuntimeImages, builtin
from modelwright.adapters.kubernetes.servers.catalogue_files import FolderCatalogue, parse
from modelwright.ports.errors import Invalid, NotFound
from modelwright.ports.workloads import Resources

MXNET = {
    "framework": "mxnet",
    "image": "registry.example/mxnet:1.9",
    "args": ["--model=$(MODEL_NAME)", "--path=$(MODEL_DIR)", "--port=$(PORT)", "--home=$(HOME_DIR)", "$$(PORT)"],
    "env": {"HOME_DIR": "/tmp", "LISTEN": "0.0.0.0:$(PORT)"},
    "readyPath": "/models/$(MODEL_NAME)/$(VERSION)",
    "livePath": "/ping",
    "resources": {"requests": {"cpu": 2, "memory": "1Gi"}},
}
WRONG = [
    ({"framework": "mxnet"}, "`image`"),
    ({**MXNET, "image": "two words"}, "image: 'two words'"),
    ({**MXNET, "image": "https://registry.example/mxnet"}, "image: "),
    ({**MXNET, "imagee": "a:1"}, "`imagee`"),
    ({**MXNET, "args": "--port=1"}, "`args`"),
    ({**MXNET, "env": {"A": 1}}, "`env"),
    ({**MXNET, "env": {"A-B": "1"}}, "env: 'A-B'"),
    ({**MXNET, "args": ["--path=$(MODEL_PATH)"]}, "args[0]: $(MODEL_PATH) is no placeholder"),
    ({**MXNET, "args": ["--version=$(VERSION)"]}, "args[0]: $(VERSION) is no placeholder"),
    ({**MXNET, "command": ["serve", "$()"]}, "command[1]: $() is no placeholder"),
    ({**MXNET, "readyPath": "/health?port=$(PORT)"}, "readyPath: $(PORT) is no placeholder"),
    ({**MXNET, "livePath": "/$(VERSION)"}, "livePath: $(VERSION) is no placeholder"),
    ({**MXNET, "readyPath": "health"}, "readyPath: 'health' is not a path"),
    ({**MXNET, "readyPath": ""}, "readyPath is missing"),
    ({**MXNET, "layout": "kserve"}, "`layout`"),
    ({**MXNET, "resources": {"limits": {"memory": "much"}}}, "resources.limits.memory: 'much'"),
    ({**MXNET, "resources": {"limit": {}}}, "`resources"),
    ({**MXNET, "framework": "a b"}, "framework: 'a b'"),
    (["a list"], "object"),
]


def written(folder: Path, **files: object) -> FolderCatalogue:
    for name, content in files.items():
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        (folder / f"{name}.yaml").write_text(text)
    return FolderCatalogue(folder, builtin())


# What is built in ---------------------------------------------------------------------------------------------------


def test_onnx_and_sklearn_are_served_by_our_server() -> None:
    catalogue = builtin(RuntimeImages(onnx="registry.example/onnx:1"))
    runtime = catalogue.runtime("onnx")
    assert (runtime.image, runtime.layout, runtime.secured) == ("registry.example/onnx:1", "modelwright", True)
    launch = command_of(runtime, model_name="digits", port=8501)
    assert launch.command == ("modelwright", "server")
    assert " ".join(launch.args) == (
        "--config /run/modelwright/config.json --state /run/modelwright/state.json --host :: --port 8501"
    )
    assert (ready_path_of(runtime, model_name="digits"), live_path_of(runtime, model_name="digits")) == (
        "/v2/health/ready",
        "/v2/health/live",
    )
    assert catalogue.runtime("sklearn").image.startswith("modelwright/server-sklearn:")


def test_tensorflow_is_tensorflow_serving_ready_once_the_version_is_available() -> None:
    catalogue = builtin()
    runtime = catalogue.runtime("tensorflow")
    assert runtime.image.startswith("docker.io/tensorflow/serving:")
    assert (runtime.layout, runtime.secured) == ("tensorflow", False)
    launch = command_of(runtime, model_name="digits", port=9000)
    assert launch.command[-1] == "/run/modelwright/models.config"
    assert "--rest_api_port=9000" in launch.args
    assert "--model_config_file_poll_wait_seconds=5" in launch.args
    assert ready_path_of(runtime, model_name="digits", number=3) == "/v1/models/digits/versions/3/metadata"
    assert ready_path_of(runtime, model_name="digits") == "/v1/models/digits/versions/$(VERSION)/metadata"
    assert "tensorflow" not in catalogue.secured


def test_tensorflow_can_be_our_server_instead() -> None:
    runtime = builtin(RuntimeImages(tensorflow_server="modelwright")).runtime("tensorflow")
    assert runtime.image.startswith("modelwright/server-tensorflow:")
    assert runtime.secured
    assert runtime.command == ("modelwright", "server")


def test_an_unknown_framework_is_told_what_there_is() -> None:
    with pytest.raises(NotFound, match="caffe cannot be served here; there is: onnx, sklearn, tensorflow") as told:
        builtin().runtime("caffe")
    assert told.value.reason == "FrameworkUnavailable"


# An admin's own -----------------------------------------------------------------------------------------------------


def test_a_runtime_of_an_admin_is_filled_in() -> None:
    runtime = parse(MXNET)
    launch = command_of(runtime, model_name="digits", port=8501)
    assert launch.command == ()
    assert launch.args == (
        "--model=digits",
        "--path=/run/modelwright/model",
        "--port=8501",
        "--home=$(HOME_DIR)",
        "$$(PORT)",
    )
    assert launch.env == {"HOME_DIR": "/tmp", "LISTEN": "0.0.0.0:8501"}
    assert ready_path_of(runtime, model_name="digits", number=1) == "/models/digits/1"
    assert live_path_of(runtime, model_name="digits") == "/ping"
    assert runtime.resources == Resources(requests={"cpu": "2", "memory": "1Gi"})
    assert not runtime.secured


def test_an_image_built_upon_ours_needs_no_command() -> None:
    runtime = parse({"framework": "xgboost", "image": "a:1", "layout": "modelwright", "args": ["--drain-seconds=5"]})
    assert runtime.command == ("modelwright", "server")
    assert runtime.args[-3:] == ("--port", "$(PORT)", "--drain-seconds=5")
    assert (runtime.ready_path, runtime.secured) == ("/v2/health/ready", True)


@given(st.text(min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_a_models_name_comes_out_of_kubernetes_as_it_is(name: str) -> None:
    runtime = Runtime(framework="a", image="a:1", args=("$(MODEL_NAME)",), env={"PORT": "no"})
    (argument,) = command_of(runtime, model_name=name, port=1).args
    assert argument.replace("$$", "$") == name
    assert "$(" not in argument.replace("$$", "")


@pytest.mark.parametrize(("document", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_is_wrong_in_a_template_is_told_with_its_field(document: object, told: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(document)
    assert told in refused.value.message
    assert refused.value.reason == "RuntimeInvalid"


def test_a_folder_adds_to_what_is_built_in_and_wins(tmp_path: Path) -> None:
    ours = {"framework": "onnx", "image": "mine:1", "layout": "modelwright"}
    catalogue = written(tmp_path, several=yaml.safe_dump_all([MXNET, ours]))
    assert catalogue.frameworks == {"mxnet", "onnx", "sklearn", "tensorflow"}
    assert catalogue.runtime("onnx").image == "mine:1"
    assert catalogue.secured == {"onnx", "sklearn"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "mxnet.yaml cannot be read: line"),
        ("", "mxnet.yaml is empty"),
        ("a: 1\na: 2\n", "'a' stands twice"),
        ("framework: mxnet\n", "mxnet.yaml: "),
        ("image: a:1\nreadyPath: /\n", "`framework`"),
        ("\x00", "cannot be read"),
        ("a: " * 3000, "cannot be read"),
        ("x" * (1 << 20) + "y", "longer than"),
    ],
)
def test_a_wrong_file_is_told_to_who_uses_it_and_hides_nothing_else(tmp_path: Path, text: str, told: str) -> None:
    catalogue = written(tmp_path, mxnet=text, other={**MXNET, "framework": "other"})
    assert catalogue.runtime("other").framework == "other"
    assert catalogue.runtime("onnx").framework == "onnx"
    fault = catalogue.fault("mxnet")
    assert fault is not None
    assert told in fault.message
    with pytest.raises(Invalid, match="the runtime for frameworkType mxnet is not usable") as refused:
        catalogue.runtime("mxnet")
    assert refused.value.reason == "RuntimeInvalid"
    assert "mxnet" in catalogue.frameworks & catalogue.secured, "what is wrong with it is to be said, and nothing else"


def test_a_wrong_template_is_not_replaced_by_the_built_in_one(tmp_path: Path) -> None:
    catalogue = written(tmp_path, onnx={"framework": "onnx"})
    with pytest.raises(Invalid, match="`image`"):
        catalogue.runtime("onnx")


def test_two_templates_for_one_framework_are_a_fault(tmp_path: Path) -> None:
    catalogue = written(tmp_path, one=MXNET, two=MXNET)
    fault = catalogue.fault("mxnet")
    assert fault is not None
    assert fault.message == "two.yaml: there is another template for it; remove one"


def test_a_folder_that_is_not_there_is_an_empty_one(tmp_path: Path) -> None:
    catalogue = FolderCatalogue(tmp_path / "none", builtin())
    assert catalogue.frameworks == {"onnx", "sklearn", "tensorflow"}


def test_a_config_map_that_changes_is_read_again(tmp_path: Path) -> None:
    """As the kubelet does it: a new folder, and one link that is replaced."""

    def publish(number: int, image: str) -> None:
        version = tmp_path / f"..{number}"
        version.mkdir()
        (version / "mxnet.yaml").write_text(yaml.safe_dump({**MXNET, "image": image}))
        (tmp_path / "..data_tmp").symlink_to(version.name)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    publish(1, "mxnet:1")
    (tmp_path / "mxnet.yaml").symlink_to("..data/mxnet.yaml")
    catalogue = FolderCatalogue(tmp_path, builtin())
    assert catalogue.runtime("mxnet").image == "mxnet:1"
    publish(2, "mxnet:2")
    assert catalogue.runtime("mxnet").image == "mxnet:2"
    (tmp_path / "mxnet.yaml").unlink()
    assert "mxnet" not in catalogue.frameworks


def test_both_kinds_of_catalogue_answer_the_same(tmp_path: Path) -> None:
    fixed: FixedCatalogue = builtin()
    folder = FolderCatalogue(tmp_path, fixed)
    assert (folder.frameworks, folder.secured, folder.fault("onnx")) == (fixed.frameworks, fixed.secured, None)
    assert folder.runtime("onnx") == fixed.runtime("onnx")
