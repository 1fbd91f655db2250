"""What the control loop tells Prometheus, under the names that users of controller-runtime already graph."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)


class Metrics:
    """One set of metrics, in a registry of its own so that tests and processes do not share any."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.depth = Gauge("workqueue_depth", "Keys that wait to be reconciled", ["name"], registry=self.registry)
        self.adds = Counter("workqueue_adds", "Keys that were asked for", ["name"], registry=self.registry)
        self.reconciles = Counter(
            "controller_runtime_reconcile",
            "Reconciliations by result",
            ["controller", "result"],
            registry=self.registry,
        )
        self.errors = Counter(
            "controller_runtime_reconcile_errors", "Reconciliations that failed", ["controller"], registry=self.registry
        )
        self.seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Time from gathering to the last write",
            ["controller"],
            buckets=SECONDS,
            registry=self.registry,
        )
