"""Prometheus' families of the server's figures: those that it counts, and those that it reads now."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator

import psutil
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

import edgeserve
from edgeserve.api.metrics.readings import Sample, readings
from edgeserve.figures import families
from edgeserve.figures.families import COUNTED, PREFIX, READ, Family
from edgeserve.figures.figures import Figures
from edgeserve.figures.series import Histogram
from edgeserve.jobs import CHAT
from edgeserve.residency.pool import Pool


class FiguresCollector(Collector):
    """``llamacpp``: show llama-server's names, too."""

    def __init__(self, pool: Pool, *, llamacpp: bool = False) -> None:
        self._pool, self._figures, self._llamacpp = pool, pool.figures, llamacpp

    def collect(self) -> Iterator[Metric]:
        """All families. Any thread."""
        for name, counter in self._figures.counters.items():
            yield plain(COUNTED[name], counter)
        for name, histogram in self._figures.histograms.items():
            yield distribution(COUNTED[name], histogram)
        now = readings(self._pool)
        now["build_info"] = [((edgeserve.__version__, platform.python_version()), 1)]
        for name, samples in now.items():
            yield plain(READ[name], samples)
        for family, value in zip(families.PROCESS, _process(), strict=True):
            yield plain(family, [((), value)], prefix="")
        if self._llamacpp:
            waiting, running = (now[f"requests_{state}"] for state in ("waiting", "running"))
            for family, value in zip(families.LLAMA, _llama(self._figures, running, waiting), strict=True):
                yield plain(family, [((), value)], prefix="")


def plain(family: Family, samples: Iterable[Sample], prefix: str = PREFIX) -> Metric:
    """A family of counters or gauges."""
    made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = made(prefix + family.name, family.words, labels=family.labels)
    for labels, value in samples:
        metric.add_metric(labels, value)
    return metric


def distribution(family: Family, histogram: Histogram) -> Metric:
    """A family of histograms, whose buckets add up."""
    metric = HistogramMetricFamily(PREFIX + family.name, family.words, labels=family.labels)
    bounds = [*map(floatToGoString, family.bounds), "+Inf"]
    for labels, observed in histogram:
        below, buckets = 0, []
        for bound, count in zip(bounds, observed.counts, strict=True):
            below += count
            buckets.append((bound, below))
        metric.add_metric(labels, buckets, observed.sum)
    return metric


def _process() -> Iterator[float]:
    """The values of ``families.PROCESS``."""
    process = psutil.Process()
    with process.oneshot():
        spent = process.cpu_times()
        yield process.memory_info().rss
        yield spent.user + spent.system
        yield process.create_time()
        yield process.num_fds()


def _llama(figures: Figures, running: Iterable[Sample], waiting: Iterable[Sample]) -> Iterator[float]:
    """The values of ``families.LLAMA``: all chat models together."""

    def counted(name: str) -> float:
        return _of_chat(figures.counters[name])

    def seconds(name: str) -> float:
        return _of_chat((labels, one.sum) for labels, one in figures.histograms[name])

    read = counted("prompt_tokens_total") - counted("prompt_cached_tokens_total")
    reading, written, writing = (
        seconds("prefill_seconds"), counted("generation_tokens_total"), seconds("inter_token_seconds")
    )  # fmt: skip
    yield from (read, reading, written, writing)
    yield read / reading if reading else 0.0
    yield written / writing if writing else 0.0
    yield from (_of_chat(running), _of_chat(waiting))


def _of_chat(samples: Iterable[Sample]) -> float:
    return sum(value for (engine, *_), value in samples if engine in CHAT)
