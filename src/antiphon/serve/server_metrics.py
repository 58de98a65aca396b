"""The numbers of /metrics, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest

__all__ = ["CONTENT_TYPE", "Metrics", "MetricsOfReplicas"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counts requests and batches; each server has its own registry."""

    def __init__(self) -> None:
        self._own, self._models = CollectorRegistry(), CollectorRegistry()
        own, models = self._own, self._models
        self._requests = Counter("antiphon_requests", "Answered requests.", ("route", "status"), registry=own)
        self._seconds = Histogram(
            "antiphon_request_seconds", "Seconds to the end of an answer.", ("route",), buckets=SECONDS, registry=own
        )
        self._batches = Histogram(
            "antiphon_batch_inputs", "Inputs computed together.", ("model",), buckets=SIZES, registry=models
        )
        self._restarts = Counter("antiphon_model_restarts", "Processes started again.", ("model",), registry=models)
        self._queue = Gauge("antiphon_queue_inputs", "Inputs waiting or being computed.", ("model",), registry=models)
        self._ready = Gauge("antiphon_model_ready", "1 if the model answers.", ("model",), registry=models)

    def request(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def watch(self, model: str, queue: Callable[[], float], ready: Callable[[], float]) -> None:
        """Read the state of a model whenever the metrics are."""
        self._queue.labels(model).set_function(queue)
        self._ready.labels(model).set_function(ready)
        self._restarts.labels(model)

    def report(self, model: str, fact: str, value: float) -> None:
        """A fact from a model's process: a batch, or a restart."""
        if fact == "batch":
            self._batches.labels(model).observe(value)
        else:
            self._restarts.labels(model).inc(value)

    def of_models(self) -> list[Metric]:
        """The numbers of the models as they are now."""
        return list(self._models.collect())

    def text(self, replicas: MetricsOfReplicas | None = None) -> bytes:
        """All numbers in the text format of Prometheus; those of the models from replicas, if there are any."""
        return generate_latest(self._own) + generate_latest(replicas or self._models)


class MetricsOfReplicas:
    """The numbers of the models of several replicas, told apart by a label."""

    def __init__(self, found: Iterable[tuple[str, list[Metric]]]) -> None:
        self._families: dict[str, Metric] = {}
        for replica, metrics in found:
            for metric in metrics:
                family = self._families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                family.samples += [one._replace(labels={**one.labels, "replica": replica}) for one in metric.samples]

    def collect(self) -> list[Metric]:
        """The families, for Prometheus."""
        return list(self._families.values())
