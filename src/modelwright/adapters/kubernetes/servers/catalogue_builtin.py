"""The runtimes that are there without an admin's doing."""

from __future__ import annotations

from typing import Literal

import msgspec

from modelwright import __version__
from modelwright.adapters.kubernetes.servers.catalogue import (
    SERVER_ARGS,
    SERVER_COMMAND,
    SERVER_LIVE,
    SERVER_READY,
    FixedCatalogue,
    Runtime,
)
from modelwright.ports.serving import MODELS_CONFIG_FILE

TensorflowServer = Literal["tensorflow-serving", "modelwright"]
TENSORFLOW_SERVING_IMAGE = "docker.io/tensorflow/serving:2.20.0"
CONFIG_POLL_SECONDS = 5
WAIT_AND_SERVE = 'until [ -e "$0" ]; do sleep 0.2; done; exec tensorflow_model_server "--model_config_file=$0" "$@"'
"""TensorFlow Serving ends when its configuration is missing at its start; at the edge the agent writes it only once the
first version is there."""


class RuntimeImages(msgspec.Struct, frozen=True, kw_only=True):
    """The images of the built-in runtimes, and which server `tensorflow` is."""

    onnx: str = f"modelwright/server-onnx:{__version__}"
    sklearn: str = f"modelwright/server-sklearn:{__version__}"
    tensorflow: str = ""
    """Empty: TensorFlow Serving's own, or our server's with TensorFlow."""
    tensorflow_server: TensorflowServer = "tensorflow-serving"


DEFAULT_IMAGES = RuntimeImages()


def builtin(images: RuntimeImages = DEFAULT_IMAGES) -> FixedCatalogue:
    """The built-in runtimes with these images."""
    found = (our_server("onnx", images.onnx), our_server("sklearn", images.sklearn), _tensorflow(images))
    return FixedCatalogue({runtime.framework: runtime for runtime in found})


def our_server(framework: str, image: str) -> Runtime:
    """The model server of this project."""
    return Runtime(
        framework=framework,
        image=image,
        command=SERVER_COMMAND,
        args=SERVER_ARGS,
        layout="modelwright",
        ready_path=SERVER_READY,
        live_path=SERVER_LIVE,
    )


def tensorflow_serving(image: str = TENSORFLOW_SERVING_IMAGE) -> Runtime:
    """TensorFlow Serving, REST alone. A version's metadata is answered from when it is AVAILABLE.

    https://www.tensorflow.org/tfx/serving/serving_config, https://www.tensorflow.org/tfx/serving/api_rest
    """
    return Runtime(
        framework="tensorflow",
        image=image,
        command=("/bin/sh", "-c", WAIT_AND_SERVE, MODELS_CONFIG_FILE),
        args=(
            f"--model_config_file_poll_wait_seconds={CONFIG_POLL_SECONDS}",
            "--allow_version_labels_for_unavailable_models=true",
            "--rest_api_port=$(PORT)",
            "--port=0",
        ),
        layout="tensorflow",
        ready_path="/v1/models/$(MODEL_NAME)/versions/$(VERSION)/metadata",
    )


def _tensorflow(images: RuntimeImages) -> Runtime:
    if images.tensorflow_server == "modelwright":
        return our_server("tensorflow", images.tensorflow or f"modelwright/server-tensorflow:{__version__}")
    return tensorflow_serving(images.tensorflow or TENSORFLOW_SERVING_IMAGE)
