"""The model server itself under the supervisor, with a model in ONNX."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.integration.workloads.support import OWNER, QUICK, REGISTRY, hammering, of_data_dir, until_server

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.oci.local import LocalRepository
from modelwright.oci.push import push_folder
from modelwright.oci.storage import ImageStorage
from modelwright.ports.workloads import Download, ModelImage, ModelServer, ServedVersion, Server

pytestmark = pytest.mark.anyio
COMMAND = (sys.executable, "-m", "modelwright.serve")


def times(data_dir: Path, factor: int) -> ModelImage:
    """An image of a model that multiplies by a factor."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "k"], ["y"])],
        "times",
        values[:1],
        values[1:],
        [numpy_helper.from_array(np.asarray(factor, np.float32), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    repository = LocalRepository(ImageStorage(data_dir / "images"), "times", host=REGISTRY)
    with tempfile.TemporaryDirectory() as folder, repository.batch():
        onnx.save(model, Path(folder) / "model.onnx")
        return ModelImage(f"{REGISTRY}/times@{push_folder(Path(folder), repository).digest}")


def serving(data_dir: Path, *factors: int, in_place: bool) -> Server:
    versions = tuple(ServedVersion(f"v{factor}", factor, times(data_dir, factor)) for factor in factors)
    program = ModelServer(
        model_name="m", framework="onnx", versions=versions, default=versions[-1].version, in_place=in_place
    )
    return Server(name="server", owner=OWNER, program=program)


def workloads_on(data_dir: Path) -> EmbeddedWorkloads:
    return EmbeddedWorkloads(data_dir, registry=(REGISTRY, data_dir / "images"), server_command=COMMAND, timing=QUICK)


@pytest.mark.parametrize("in_place", [False, True])
async def test_a_real_model_is_switched_and_adopted_without_a_failed_request(data_dir: Path, *, in_place: bool) -> None:
    async with workloads_on(data_dir) as workloads:
        await workloads.apply(serving(data_dir, 2, in_place=in_place))
        status = await until_server(workloads, lambda status: status.up_to_date)
        assert status.serving_version == "v2"
        with hammering(status.port, "/v1/models/m"):
            await workloads.apply(serving(data_dir, 2, 3, in_place=in_place))
            status = await until_server(workloads, lambda status: status.up_to_date)
            assert status.serving_version == "v3"
            assert [version.phase for version in status.versions] == ["Ready", "Ready"]
            await workloads.close(stop_servers=False)
            async with workloads_on(data_dir) as again:
                assert (await until_server(again, lambda status: status.up_to_date)).restarts == 0
                await again.apply(serving(data_dir, 4, in_place=in_place))
                after = await until_server(again, lambda status: status.up_to_date)
                assert (after.port, after.serving_version) == (status.port, "v4")
                await again.close(stop_servers=False)
        async with workloads_on(data_dir) as last:
            await last.remove(OWNER.uid, "server")
    assert of_data_dir(data_dir) == []


async def test_why_a_real_model_is_not_loaded_is_told(data_dir: Path, tmp_path: Path) -> None:
    broken = tmp_path / "model.onnx"
    broken.write_bytes(b"this is no model")
    source = Download(f"file://{broken}")
    program = ModelServer(
        model_name="m", framework="onnx", versions=(ServedVersion("v1", 1, source),), default="v1", in_place=True
    )
    async with workloads_on(data_dir) as workloads:
        await workloads.apply(Server(name="server", owner=OWNER, program=program))
        status = await until_server(workloads, lambda status: status.versions[0].phase == "Failed")
        failure = status.versions[0].failure
        assert failure
        assert failure.reason not in {"ServerExited", "ServerFailed"}
        assert failure.message
