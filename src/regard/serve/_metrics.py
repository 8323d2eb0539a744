"""What Prometheus reads: counts, times and sizes, of one process or of all that serve together."""

import os
from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

from regard.serve._job import Job

__all__ = ["KIND", "Metrics"]

KIND = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of what `text` gives."""

TIMES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The numbers of one server. Names of models are labels, texts never are."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self.requests = Counter(
            "regard_requests", "Requests answered", ["route", "model", "status"], registry=own
        )
        self.seconds = Histogram(
            "regard_request_seconds",
            "From the first byte of a request to the last of its answer",
            ["route"],
            buckets=TIMES,
            registry=own,
        )
        self.waited = Histogram(
            "regard_queue_seconds", "How long texts waited", buckets=TIMES, registry=own
        )
        self.batches = Histogram(
            "regard_batch_texts", "Texts that were answered together", buckets=SIZES, registry=own
        )
        self.computing = Counter(
            "regard_compute_seconds", "Time of the thread that computes", registry=own
        )
        self.texts = Counter("regard_texts", "Texts answered", ["model"], registry=own)
        self.tokens = Counter("regard_tokens", "Tokens read", ["model"], registry=own)
        self.left = Counter(
            "regard_abandoned_texts",
            "Texts whose client left, or whose time was over",
            registry=own,
        )
        self.queue = Gauge(
            "regard_queue_texts", "Texts that wait", registry=own, multiprocess_mode="livesum"
        )
        self.active = Gauge(
            "regard_active_requests",
            "Requests being answered",
            registry=own,
            multiprocess_mode="livesum",
        )
        self.reloads = Counter("regard_reloads", "Folders loaded again", ["model"], registry=own)

    def answered(self, jobs: Sequence[Job], seconds: float, together: int) -> None:
        """Take note of jobs that have been answered, and how many were computed together."""
        self.batches.observe(together)
        self.computing.inc(seconds)
        for job in jobs:
            self.waited.observe(max(0.0, job.began - job.queued))
            if job.answer.cancelled():
                self.left.inc()
        served = getattr(jobs[0].work, "served", None)
        if served is not None:
            self.texts.labels(served.name).inc(len(jobs))
            self.tokens.labels(served.name).inc(sum(job.size for job in jobs))

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        multiprocess.MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
