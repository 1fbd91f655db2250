"""The numbers of /metrics. Requests only add to plain counters; Prometheus' text is made when it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from modelwright.http.histogram import Histogram
from modelwright.serve.loaded import InferencePool
from modelwright.serve.registry import Registry


class Metrics(Collector):
    """What the server counts; used on the event loop only."""

    def __init__(self, registry: Registry, pool: InferencePool) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.latency = {"v1": Histogram(), "v2": Histogram()}
        self.inference = Histogram()
        self._registry = registry
        self._pool = pool
        self._prometheus = CollectorRegistry()
        self._prometheus.register(self)
        ProcessCollector(registry=self._prometheus)

    def text(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self._prometheus)

    def collect(self) -> Iterator[Metric]:
        """The families, with the model's name on each."""
        model = self._registry.config.model_name if self._registry.config else ""
        requests = CounterMetricFamily(
            "modelwright_requests", "Inference requests answered.", labels=["model", "protocol", "code"]
        )
        for (protocol, code), count in sorted(self.requests.items()):
            requests.add_metric([model, protocol, str(code)], count)
        yield requests
        latency = HistogramMetricFamily(
            "modelwright_request_seconds", "From a request's headers to its answer.", labels=["model", "protocol"]
        )
        for protocol, histogram in self.latency.items():
            histogram.add_to(latency, [model, protocol])
        yield latency
        inference = HistogramMetricFamily(
            "modelwright_inference_seconds", "The model's share, with the wait for a thread.", labels=["model"]
        )
        self.inference.add_to(inference, [model])
        yield inference
        yield from self._versions(model)
        waiting = GaugeMetricFamily("modelwright_inference_pending", "Requests in threads or waiting for one.")
        waiting.add_metric([], self._pool.pending)
        yield waiting

    def _versions(self, model: str) -> Iterator[Metric]:
        loaded = GaugeMetricFamily(
            "modelwright_model_loaded", "1 for a loaded version.", labels=["model", "version", "default"]
        )
        seconds = GaugeMetricFamily(
            "modelwright_model_load_seconds", "Load and warm-up of a version.", labels=["model", "version"]
        )
        for name, version in sorted(self._registry.serving.versions.items()):
            default = "true" if version is self._registry.serving.default else "false"
            loaded.add_metric([model, name, default], 1)
            seconds.add_metric([model, name], version.load_seconds)
        yield loaded
        yield seconds
