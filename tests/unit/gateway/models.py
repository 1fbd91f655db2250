"""Small model servers on real sockets: a classifier of three logits in either protocol, that can misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tests.unit.kubernetes.servers import Asked, answer, asked, listening

Behaviour = Callable[[Asked, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What it does with a request for an inference instead of answering it."""

_V1 = re.compile(r"/v1/models/(?P<name>[^/:]+)(?:/(?P<kind>versions|labels)/(?P<key>[^/:]+))?:predict")
_V2 = re.compile(r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<key>[^/]+))?/infer")
_DTYPES = {"INT64": "DT_INT64", "FP32": "DT_FLOAT", "FP64": "DT_DOUBLE", "BYTES": "DT_STRING"}


def softmax(row: list[float]) -> list[float]:
    powers = [math.exp(value - max(row)) for value in row]
    return [power / sum(powers) for power in powers]


class SmallModel:
    """`label` is the place of the highest logit plus `offset`, `probabilities` are the softmax, `classes` has no rows.

    `v1`, `v2`: what it speaks. `default`: the outputs of v1's default signature. `names` renames outputs. `width` is
    the length of a row that it takes.
    """

    def __init__(
        self,
        *,
        v1: bool = True,
        v2: bool = True,
        offset: int = 0,
        default: tuple[str, ...] = ("label",),
        names: dict[str, str] | None = None,
        outputs: tuple[str, ...] = ("label", "probabilities"),
        datatypes: dict[str, str] | None = None,
        width: int = 3,
        version: str = "1",
        name: str = "m",
        input_name: str = "x",
        input_type: str = "FP32",
    ) -> None:
        self.v1, self.v2, self.offset, self.width, self.version, self.name = v1, v2, offset, width, version, name
        self.outputs, self.default = outputs, default
        self.names = names or {}
        self.datatypes = {"label": "INT64", "probabilities": "FP32", "classes": "BYTES"} | (datatypes or {})
        self.input_name, self.input_type = input_name, input_type
        self.signatures: dict[str, tuple[str, ...]] = {}
        """What v1 shows under which name, instead of what follows from the outputs."""
        self.described = True
        """Whether it says which tensors it takes and gives."""
        self.behaviour: Behaviour | None = None
        self.seen: list[Asked] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/models/{self.name}"

    @property
    def inferences(self) -> list[Asked]:
        """The requests for inferences that came."""
        return [request for request in self.seen if request.method == "POST"]

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[SmallModel]:
        async with listening(self.talk) as self.port:
            yield self

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await asked(reader):
            self.seen.append(request)
            if request.method == "POST" and self.behaviour is not None:
                await self.behaviour(request, reader, writer)
            else:
                writer.write(self.answer_to(request))
            await writer.drain()

    def answer_to(self, request: Asked) -> bytes:
        try:
            return self._answer_to(request)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, ArithmeticError) as error:
            return answer({"error": f"bad request: {type(error).__name__}"}, 400)

    def _answer_to(self, request: Asked) -> bytes:
        if request.method == "POST" and self.v1 and (found := _V1.fullmatch(request.target)):
            return self._predict(request, found)
        if request.method == "POST" and self.v2 and (found := _V2.fullmatch(request.target)):
            return self._infer(request, found)
        if self.v2 and request.target == "/v2":
            return answer({"name": "small", "version": "1", "extensions": []})
        if self.v2 and request.target == f"/v2/models/{self.name}":
            return answer(self._v2_metadata())
        if self.v1 and self.described and request.target == f"/v1/models/{self.name}/metadata":
            return answer(self._v1_metadata())
        path = f"/v1/models/{self.name}"
        if self.v1 and request.target in (path, f"{path}/versions/{self.version}"):
            return answer({"model_version_status": [{"version": self.version, "state": "AVAILABLE"}]})
        return answer({"error": f"not found: {request.target}"}, 404)

    # The model ------------------------------------------------------------------------------------------------------

    def compute(self, rows: list[list[float]]) -> dict[str, list[Any]]:
        label = self.datatypes["label"]
        labels: list[Any] = [row.index(max(row)) + self.offset for row in rows]
        if label == "BYTES":
            labels = [f"c{value}" for value in labels]
        found = {"label": labels, "probabilities": [softmax(row) for row in rows]}
        found["logits"] = rows
        found["classes"] = [f"class {place}" for place in range(self.width)]
        return {self._out(name): found[name] for name in self.outputs}

    def _out(self, name: str) -> str:
        return self.names.get(name, name)

    def _rows(self, value: Any) -> list[list[float]] | None:
        good = isinstance(value, list) and all(
            isinstance(row, list) and len(row) == self.width and all(isinstance(item, (int, float)) for item in row)
            for row in value
        )
        return value if good else None

    def _specs(self) -> dict[str, tuple[str, list[int]]]:
        wide = [-1, self.width]
        shapes = {"label": [-1], "probabilities": wide, "logits": wide, "classes": [self.width]}
        return {self._out(name): (self.datatypes.get(name, "FP32"), shapes[name]) for name in self.outputs}

    # TensorFlow Serving's REST --------------------------------------------------------------------------------------

    def _signatures(self) -> dict[str, tuple[str, ...]]:
        if self.signatures:
            return self.signatures
        every = tuple(map(self._out, self.outputs))
        default = tuple(self._out(name) for name in self.default if name in self.outputs) or every
        return {"serving_default": default, "all_outputs": every} | {name: (name,) for name in every}

    def _predict(self, request: Asked, found: re.Match[str]) -> bytes:
        if found["name"] != self.name or found["key"] not in (None, self.version):
            return answer({"error": "Servable not found"}, 404)
        message = json.loads(request.body)
        signature = self._signatures().get(message.get("signature_name", "serving_default"))
        columnar = "inputs" in message
        value = message["inputs"] if columnar else message.get("instances")
        if isinstance(value, dict):
            value = value.get(self.input_name)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            value = [row.get(self.input_name) for row in value]
        rows = self._rows(value)
        if signature is None or rows is None:
            return answer({"error": "bad request"}, 400)
        outputs = {name: each for name, each in self.compute(rows).items() if name in signature}
        if columnar:
            return answer({"outputs": outputs if len(outputs) > 1 else next(iter(outputs.values()))})
        if len(outputs) == 1:
            return answer({"predictions": next(iter(outputs.values()))})
        return answer(
            {"predictions": [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]}
        )

    def _v1_metadata(self) -> Any:
        specs = self._specs()

        def info(datatype: str, shape: list[int]) -> Any:
            dims = [{"size": str(size), "name": ""} for size in shape]
            return {"dtype": _DTYPES[datatype], "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": "t:0"}

        inputs = {self.input_name: info(self.input_type, [-1, self.width])}
        signatures = {
            key: {"inputs": inputs, "outputs": {name: info(*specs[name]) for name in names}, "method_name": "p"}
            for key, names in self._signatures().items()
        }
        return {
            "model_spec": {"name": self.name, "signature_name": "", "version": self.version},
            "metadata": {"signature_def": {"signature_def": signatures}},
        }

    # The Open Inference Protocol ------------------------------------------------------------------------------------

    def _infer(self, request: Asked, found: re.Match[str]) -> bytes:
        if found["name"] != self.name or found["key"] not in (None, self.version):
            return answer({"error": "no such version"}, 404)
        message = json.loads(request.body)
        tensor = message["inputs"][0]
        flat = tensor["data"]
        rows = self._rows([flat[at : at + self.width] for at in range(0, len(flat), self.width)])
        wanted = [output["name"] for output in message.get("outputs") or ()] or list(self._specs())
        typed = tensor["name"] == self.input_name and tensor["datatype"] == self.input_type
        typed = typed and tensor["shape"] == [len(rows or ()), self.width]
        if rows is None or not typed or not set(wanted) <= set(self._specs()):
            return answer({"error": "bad request"}, 400)
        values = self.compute(rows)
        outputs = [self._tensor(name, values[name]) for name in wanted]
        body = {"model_name": self.name, "model_version": self.version, "outputs": outputs}
        return answer(body | ({"id": message["id"]} if "id" in message else {}))

    def _tensor(self, name: str, rows: list[Any]) -> Any:
        datatype, shape = self._specs()[name]
        flat = [value for row in rows for value in row] if len(shape) > 1 else rows
        return {"name": name, "datatype": datatype, "shape": [len(rows), *shape[1:]], "data": flat}

    def _v2_metadata(self) -> Any:
        if not self.described:
            return {"name": self.name, "versions": [self.version], "inputs": [], "outputs": []}
        outputs = [{"name": name, "datatype": kind, "shape": shape} for name, (kind, shape) in self._specs().items()]
        inputs = [{"name": self.input_name, "datatype": self.input_type, "shape": [-1, self.width]}]
        return {
            "name": self.name,
            "versions": [self.version],
            "platform": "small",
            "inputs": inputs,
            "outputs": outputs,
        }


# What a model server may do instead of answering --------------------------------------------------------------------


def raw(data: bytes, *, close: bool = True) -> Behaviour:
    """Sends these bytes and closes the connection."""

    async def behave(_: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if close:
            writer.close()

    return behave


def says(value: Any, status: int = 200, **headers: str) -> Behaviour:
    """Answers with this JSON."""
    return raw(answer(value, status, **headers), close=False)


async def hang(_: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says nothing, until the client goes."""
    while not reader.at_eof():
        await asyncio.sleep(0.01)


async def drip(_: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends a byte now and then."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def flood(_: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends a body that does not end."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    while not writer.is_closing():
        writer.write(chunk)
        await writer.drain()
