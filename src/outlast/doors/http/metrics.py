"""What `/metrics` tells: requests by method, route and status, how long they took, and streams that are open.

Labels are bounded: a route is its template, and no id, tenant or name is ever one.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The numbers of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        make: dict[str, Any] = {"registry": self._registry}
        self._requests = Counter("outlast_http_requests", "Requests.", ("method", "route", "status"), **make)
        self._seconds = Histogram(
            "outlast_http_request_seconds", "How long requests took.", ("method", "route"), buckets=SECONDS, **make
        )
        self.under_way = Gauge("outlast_http_requests_under_way", "Requests that are being answered.", **make)
        self.streams = Gauge("outlast_http_streams", "Event streams that are open.", **make)
        self._known: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        found = self._known.get((method, route, status))
        if found is None:
            found = self._requests.labels(method, route, str(status)), self._seconds.labels(method, route)
            self._known[method, route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)
