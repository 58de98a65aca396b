"""The numbers of /metrics, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counts requests and batches; each server has its own registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own = self._registry
        self._requests = Counter("antiphon_requests", "Answered requests.", ("route", "status"), registry=own)
        self._seconds = Histogram(
            "antiphon_request_seconds", "Seconds to the end of an answer.", ("route",), buckets=SECONDS, registry=own
        )
        self._batches = Histogram(
            "antiphon_batch_inputs", "Inputs computed together.", ("model",), buckets=SIZES, registry=own
        )
        self._restarts = Counter("antiphon_model_restarts", "Processes started again.", ("model",), registry=own)
        self._queue = Gauge("antiphon_queue_inputs", "Inputs waiting or being computed.", ("model",), registry=own)
        self._ready = Gauge("antiphon_model_ready", "1 if the model answers.", ("model",), registry=own)

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

    def text(self) -> bytes:
        """All numbers in the text format of Prometheus."""
        return generate_latest(self._registry)
