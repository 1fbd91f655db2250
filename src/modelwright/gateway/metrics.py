"""The numbers of /metrics. Requests only add to plain counters; Prometheus' text is made when it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from modelwright.gateway.breaker import Position
from modelwright.http.histogram import Histogram

POSITIONS: tuple[Position, ...] = ("closed", "half-open", "open")


class SideGauges(msgspec.Struct, frozen=True):
    """How a model is at one moment."""

    ready: bool
    breaker: Position
    pending: int


class Gauges(msgspec.Struct, frozen=True):
    """How the gateway is at one moment; `kept_bytes` is None where nothing is kept."""

    service: str
    sides: dict[str, SideGauges]
    kept_bytes: int | None = None


class Metrics(Collector):
    """What the gateway counts; used on the event loop only. `gauges` is asked when somebody looks."""

    def __init__(self, gauges: Callable[[], Gauges]) -> None:
        self.requests: Counter[tuple[str, int, str]] = Counter()
        """By protocol, status and who answered (edge, cloud, mixed, or nobody: empty)."""
        self.rows: Counter[str] = Counter()
        """Rows answered by edge and cloud."""
        self.hard = 0
        self.without_scores = 0
        self.policy_failures = 0
        self.fallbacks: Counter[tuple[str, str]] = Counter()
        """What one model answered because the other failed: by the failed one and the reason."""
        self.failures: Counter[tuple[str, str]] = Counter()
        self.latency = {"v1": Histogram(), "v2": Histogram()}
        self.upstream = {"edge": Histogram(), "cloud": Histogram()}
        self.kept = 0
        self.not_kept: Counter[str] = Counter()
        self._gauges = gauges
        self._prometheus = CollectorRegistry()
        self._prometheus.register(self)
        ProcessCollector(registry=self._prometheus)

    def text(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self._prometheus)

    def collect(self) -> Iterator[Metric]:
        """The families, with the service's name on each."""
        now = self._gauges()
        yield self._requests(now.service)
        yield from self._rows(now.service)
        yield self._counted(
            "modelwright_gateway_fallbacks",
            "Requests answered by the other model, or hard rows by the edge model, because a model failed.",
            ("failed", "reason"),
            self.fallbacks,
            now.service,
        )
        yield self._counted(
            "modelwright_gateway_upstream_failures",
            "Requests to a model that gave no answer of use.",
            ("side", "reason"),
            self.failures,
            now.service,
        )
        yield self._durations(
            "modelwright_gateway_request_seconds",
            "From a request's headers to its answer.",
            "protocol",
            self.latency,
            now,
        )
        yield self._durations(
            "modelwright_gateway_upstream_seconds", "Until a model has answered.", "side", self.upstream, now
        )
        yield from self._sides(now)
        yield from self._examples(now)

    def _requests(self, service: str) -> Metric:
        family = CounterMetricFamily(
            "modelwright_gateway_requests",
            "Inference requests answered.",
            labels=["service", "protocol", "code", "served_by"],
        )
        for (protocol, code, served_by), count in sorted(self.requests.items()):
            family.add_metric([service, protocol, str(code), served_by], count)
        return family

    def _rows(self, service: str) -> Iterator[Metric]:
        family = CounterMetricFamily("modelwright_gateway_rows", "Rows answered.", labels=["service", "served_by"])
        for side in ("edge", "cloud"):
            family.add_metric([service, side], self.rows[side])
        yield family
        total = sum(self.rows.values())
        share = GaugeMetricFamily(
            "modelwright_gateway_offloaded_share",
            "Share of all rows that the cloud model answered.",
            labels=["service"],
        )
        share.add_metric([service], self.rows["cloud"] / total if total else 0.0)
        yield share
        for name, text, count in (
            ("hard_rows", "Rows that the policy found hard.", self.hard),
            (
                "rows_without_scores",
                "Rows that count as hard because the edge model gave no scores.",
                self.without_scores,
            ),
            ("policy_failures", "Rows that count as hard because the policy failed.", self.policy_failures),
        ):
            counted = CounterMetricFamily(f"modelwright_gateway_{name}", text, labels=["service"])
            counted.add_metric([service], count)
            yield counted

    def _counted(
        self, name: str, text: str, labels: tuple[str, str], counts: Counter[tuple[str, str]], service: str
    ) -> Metric:
        family = CounterMetricFamily(name, text, labels=["service", *labels])
        for values, count in sorted(counts.items()):
            family.add_metric([service, *values], count)
        return family

    def _durations(self, name: str, text: str, label: str, found: dict[str, Histogram], now: Gauges) -> Metric:
        family = HistogramMetricFamily(name, text, labels=["service", label])
        for value, histogram in found.items():
            histogram.add_to(family, [now.service, value])
        return family

    def _sides(self, now: Gauges) -> Iterator[Metric]:
        ready = GaugeMetricFamily(
            "modelwright_gateway_model_ready", "1 for a model that can be asked.", labels=["service", "side"]
        )
        breaker = GaugeMetricFamily(
            "modelwright_gateway_breaker",
            "1 for the position of a model's breaker.",
            labels=["service", "side", "position"],
        )
        pending = GaugeMetricFamily(
            "modelwright_gateway_upstream_pending", "Requests that wait for a model.", labels=["service", "side"]
        )
        for side, found in now.sides.items():
            ready.add_metric([now.service, side], float(found.ready))
            pending.add_metric([now.service, side], found.pending)
            for position in POSITIONS:
                breaker.add_metric([now.service, side, position], float(found.breaker == position))
        yield from (ready, breaker, pending)

    def _examples(self, now: Gauges) -> Iterator[Metric]:
        if now.kept_bytes is None:
            return
        size = GaugeMetricFamily("modelwright_gateway_kept_bytes", "Bytes of kept hard examples.", labels=["service"])
        size.add_metric([now.service], now.kept_bytes)
        kept = CounterMetricFamily("modelwright_gateway_kept_examples", "Hard examples kept.", labels=["service"])
        kept.add_metric([now.service], self.kept)
        lost = CounterMetricFamily(
            "modelwright_gateway_not_kept_examples",
            "Hard examples that could not be kept.",
            labels=["service", "reason"],
        )
        for reason, count in sorted(self.not_kept.items()):
            lost.add_metric([now.service, reason], count)
        yield from (size, kept, lost)
