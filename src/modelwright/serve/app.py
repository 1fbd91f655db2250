"""The server as a plain ASGI application: no framework stands on the path of a request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from modelwright.http.asgi import (
    Answer,
    Bodies,
    Message,
    Receive,
    RequestError,
    Send,
    allow,
    json_answer,
    send_answer,
)
from modelwright.http.routes import Route, route_of
from modelwright.serve import v1, v2
from modelwright.serve.binary import HEADER, split
from modelwright.serve.config import DEFAULT_MAX_REQUEST_BYTES
from modelwright.serve.loaded import InferencePool, LoadedModel
from modelwright.serve.metrics import Metrics
from modelwright.serve.registry import Registry

log = logging.getLogger("modelwright.server")

_BINARY = b"application/octet-stream"
_METRICS = b"text/plain; version=0.0.4; charset=utf-8"
_NO_MODEL = "no version of the model is loaded yet; ask /v2/health/ready"


class App:
    """Answers requests from the versions that the registry holds."""

    def __init__(self, registry: Registry, pool: InferencePool) -> None:
        self._registry = registry
        self._pool = pool
        self._metrics = Metrics(registry, pool)
        self.draining = False
        self._bodies = Bodies()
        self._inference = {"v2.infer": self._infer, "v1.predict": self._predict}
        self._pages: dict[str, Callable[[Route], Answer]] = {
            "healthz": lambda _: Answer(b"ok\n", content_type=b"text/plain"),
            "metrics": lambda _: Answer(self._metrics.text(), content_type=_METRICS),
            "v2": lambda _: json_answer(v2.server_metadata()),
            "live": lambda _: json_answer({"live": True}),
            "ready": self._ready,
            "v2.metadata": self._v2_metadata,
            "v2.ready": self._v2_ready,
            "v1.status": self._v1_status,
            "v1.metadata": self._v1_metadata,
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request; every error is answered as `{"error": message}`."""
        started = time.perf_counter()
        route = route_of(scope["raw_path"])
        try:
            response = await self._answer(scope, receive, route)
        except RequestError as error:
            response = json_answer({"error": error.message}, error.status, error.headers)
        except Exception:
            log.exception("a request to %r failed", scope["path"])
            response = json_answer({"error": "the server failed to answer this request; its log says why"}, 500)
        await send_answer(send, response)
        if route is not None and route.verb in self._inference:
            self._metrics.requests[route.verb[:2], response.status] += 1
            self._metrics.latency[route.verb[:2]].observe(time.perf_counter() - started)

    async def _answer(self, scope: Message, receive: Receive, route: Route | None) -> Answer:
        if route is None:
            raise RequestError(f"there is nothing at {scope['path']}", 404)
        infer = self._inference.get(route.verb)
        if infer is not None:
            allow(scope["method"], "POST")
            config = self._registry.config
            limit = config.max_request_bytes if config else DEFAULT_MAX_REQUEST_BYTES
            return await infer(route, scope, await self._bodies.read(scope, receive, limit))
        page = self._pages.get(route.verb)
        if page is None:
            method = route.verb.removeprefix("v1.")
            raise RequestError(f"this server has no method {method!r}; use :predict", 404)
        allow(scope["method"], "GET", "HEAD")
        return page(route)

    async def _infer(self, route: Route, scope: Message, body: bytes) -> Answer:
        head, tensors = split(body, scope["headers"])
        request = v2.decode_request(head)
        with self._select(route) as loaded:
            function = loaded.function(v2.signature_name(request, loaded.model))
            names = v2.wanted_outputs(request, function.outputs)
            inputs = v2.request_inputs(request, function.inputs, tensors)
            started = time.perf_counter()
            results = await loaded.predict(function, inputs, self._pool)
            self._metrics.inference.observe(time.perf_counter() - started)
            answer, length = v2.encode_response(request, route.model, loaded.config.version, results, names)
            if length:
                return Answer(answer, 200, (*loaded.headers, (HEADER, str(length).encode())), _BINARY)
            return Answer(answer, 200, loaded.headers)

    async def _predict(self, route: Route, _: Message, body: bytes) -> Answer:
        request = v1.decode_request(body)
        with self._select(route) as loaded:
            function = loaded.function(request.signature_name)
            inputs = v1.request_inputs(request, function.inputs)
            started = time.perf_counter()
            results = await loaded.predict(function, inputs, self._pool)
            self._metrics.inference.observe(time.perf_counter() - started)
            return Answer(v1.encode_response(request, inputs, results, function.shown), 200, loaded.headers)

    def _select(self, route: Route) -> LoadedModel:
        """The version that a route names; raises RequestError: 404 if it is unknown, 503 if none is loaded."""
        self._check_model(route)
        serving = self._registry.serving
        if not route.selector:
            if serving.default is None:
                raise RequestError(_NO_MODEL, 503, ((b"retry-after", b"1"),))
            return serving.default
        if route.selector == "labels":
            found = serving.labels.get(route.key)
        elif route.verb.startswith("v1"):
            found = serving.numbers.get(route.key) or serving.versions.get(route.key)
        else:
            found = serving.versions.get(route.key) or serving.numbers.get(route.key)
        if found is None:
            what = "label" if route.selector == "labels" else "version"
            raise RequestError(f"model {route.model!r} has no {what} {route.key!r} loaded", 404)
        return found

    def _check_model(self, route: Route) -> None:
        config = self._registry.config
        if config is None or route.model != config.model_name:
            raise RequestError(f"this server does not serve a model {route.model!r}", 404)

    def _ready(self, _: Route) -> Answer:
        ready = self._registry.serving.default is not None and not self.draining
        return json_answer({"ready": ready}, 200 if ready else 503)

    def _v2_ready(self, route: Route) -> Answer:
        loaded = self._select(route)
        return json_answer({"name": route.model, "ready": True}, 200, loaded.headers)

    def _v2_metadata(self, route: Route) -> Answer:
        loaded = self._select(route)
        versions = [loaded.config.version] if route.selector else list(self._registry.serving.versions)
        return json_answer(v2.model_metadata(route.model, versions, loaded), 200, loaded.headers)

    def _v1_metadata(self, route: Route) -> Answer:
        loaded = self._select(route)
        return json_answer(v1.model_metadata(route.model, loaded), 200, loaded.headers)

    def _v1_status(self, route: Route) -> Answer:
        self._check_model(route)
        states = list(self._registry.states.values())
        if route.selector == "labels":
            states = [self._registry.states[self._select(route).config.version]]
        elif route.selector:
            by_number = [state for state in states if str(state.number) == route.key]
            states = by_number or [state for state in states if state.version == route.key]
        if not states:
            raise RequestError(f"model {route.model!r} has no version {route.key!r}", 404)
        return json_answer(v1.model_status(states))
