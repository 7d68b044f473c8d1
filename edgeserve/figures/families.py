"""All families of ``GET /metrics``: name, kind, labels and words. docs/metrics.md is compared with this table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from edgeserve.dataclass import dataclass

Kind = Literal["counter", "gauge", "histogram"]

MODEL = ("engine", "model")

FIRST = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
    160,
    640,
    2560,
)
"""Bounds for the first token, in seconds. These and the next two are vLLM's (vllm/v1/metrics/loggers.py)."""
BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
WHOLE = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10)
"""Bounds for seconds of work by seconds of sound: below 1 the engine is faster than the sound."""
MOVES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


@dataclass(frozen=True, slots=True)
class Family:
    """One family. The name of a counter ends in ``_total``. ``bounds``: of a histogram's buckets."""

    name: str
    kind: Kind
    words: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


_COUNTED = (
    Family("requests_total", "counter", "Answers over HTTP by route", ("engine", "route", "status")),
    Family("answers_total", "counter", "Answers of engines by their end", (*MODEL, "end")),
    Family("refusals_total", "counter", "Requests that the server had no room for", (*MODEL, "reason")),
    Family("request_duration_seconds", "histogram", "From a request's place in the queue to its end", MODEL, WHOLE),
    Family("queue_seconds", "histogram", "Wait for the turn, and for memory", MODEL, FIRST),
    Family("prefill_seconds", "histogram", "From the turn to the first token", MODEL, FIRST),
    Family("time_to_first_token_seconds", "histogram", "From the queue to the first token or sound", MODEL, FIRST),
    Family("inter_token_seconds", "histogram", "Time between tokens, the mean of an answer", MODEL, BETWEEN),
    Family("prompt_tokens_total", "counter", "Tokens of prompts", MODEL),
    Family("prompt_cached_tokens_total", "counter", "Tokens of prompts that a cache held", MODEL),
    Family("generation_tokens_total", "counter", "Tokens of answers", MODEL),
    Family("audio_seconds_total", "counter", "Seconds of sound heard and spoken", (*MODEL, "direction")),
    Family("real_time_factor", "histogram", "Seconds of work by seconds of sound", MODEL, FACTORS),
    Family("transitions_total", "counter", "Moves of engines between their rungs", (*MODEL, "from", "to", "reason")),
    Family("transition_seconds", "histogram", "Time that a move took", (*MODEL, "to"), MOVES),
    Family("reclaimed_bytes_total", "counter", "Bytes that came back with steps down", MODEL),
    Family("reclaim_expected_bytes_total", "counter", "Bytes that were expected of steps down", MODEL),
)
"""Counted while the server works."""

_READ = (
    Family("requests_running", "gauge", "Requests under way", MODEL),
    Family("requests_waiting", "gauge", "Requests that wait for their turn", MODEL),
    Family("engine_rung", "gauge", "0 cold, 1 warm, 2 hot", MODEL),
    Family("engine_memory_bytes", "gauge", "Memory that an engine holds by the accounts", (*MODEL, "kind")),
    Family("worker_restarts_total", "counter", "Deaths of an engine's own process", MODEL),
    Family("drafted_tokens_total", "counter", "Tokens guessed ahead since the model was loaded", MODEL),
    Family("accepted_tokens_total", "counter", "Guessed tokens that answers kept", MODEL),
    Family("memory_budget_bytes", "gauge", "Memory that engines may use"),
    Family("memory_used_bytes", "gauge", "Memory of the server and its workers that the budget counts"),
    Family("memory_available_bytes", "gauge", "Memory that the system has left"),
    Family("pressure_level", "gauge", "0 low, 1 moderate, 2 high, 3 critical"),
    Family("model_info", "gauge", "1; the model behind an id", (*MODEL, "name")),
    Family("build_info", "gauge", "1; versions", ("version", "python")),
)
"""Read when somebody asks."""

PREFIX = "edgeserve_"
COUNTED: Mapping[str, Family] = MappingProxyType({one.name: one for one in _COUNTED})
READ: Mapping[str, Family] = MappingProxyType({one.name: one for one in _READ})
PROCESS = (
    Family("process_resident_memory_bytes", "gauge", "Resident memory of the serving process"),
    Family("process_cpu_seconds_total", "counter", "Processor time of the serving process"),
    Family("process_start_time_seconds", "gauge", "Start of the serving process, in seconds since 1970"),
    Family("process_open_fds", "gauge", "Open file descriptors of the serving process"),
)
"""The usual names, without the prefix."""
LLAMA = (
    Family("llamacpp:prompt_tokens_total", "counter", "Number of prompt tokens processed."),
    Family("llamacpp:prompt_seconds_total", "counter", "Prompt process time"),
    Family("llamacpp:tokens_predicted_total", "counter", "Number of generation tokens processed."),
    Family("llamacpp:tokens_predicted_seconds_total", "counter", "Predict process time"),
    Family("llamacpp:prompt_tokens_seconds", "gauge", "Average prompt throughput in tokens/s."),
    Family("llamacpp:predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s."),
    Family("llamacpp:requests_processing", "gauge", "Number of requests processing."),
    Family("llamacpp:requests_deferred", "gauge", "Number of requests deferred."),
)
"""llama-server's names and words, over all chat models; only with ``llamacpp_metrics``."""
