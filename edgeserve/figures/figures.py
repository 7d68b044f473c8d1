"""Counters and times of the server at work. ``GET /metrics`` shows them; docs/metrics.md has the names."""

from __future__ import annotations

from types import MappingProxyType

from edgeserve import errors
from edgeserve.engine import ModelSpec
from edgeserve.errors import EdgeserveError
from edgeserve.figures.account import Account, current
from edgeserve.figures.answer import Answer, Times
from edgeserve.figures.families import COUNTED
from edgeserve.figures.moves import Move
from edgeserve.figures.series import Counter, Histogram
from edgeserve.figures.spans import Attributes

REASONS = MappingProxyType(
    {
        errors.DoesNotFit.code: "memory",
        errors.MemoryPressure.code: "pressure",
        errors.Busy.code: "queue",
        errors.ShuttingDown.code: "closing",
        errors.Restarting.code: "restarting",
        errors.SlowReader.code: "slow_reader",
    }
)
"""Reasons of refusals by the code of their error. Other errors are no refusals."""
DONE = "done"
"""End of an answer whose engine gives no reason."""


class Figures:
    """Counters and histograms by the names of ``families.COUNTED``. Any thread."""

    def __init__(self) -> None:
        self.counters = {one.name: Counter() for one in COUNTED.values() if one.kind == "counter"}
        self.histograms = {one.name: Histogram(one.bounds) for one in COUNTED.values() if one.kind == "histogram"}

    def request(self, engine: str, route: str, status: int) -> None:
        """An answer over HTTP is over. ``route``: as the table of routes writes it."""
        self.counters["requests_total"].add(1, engine, route, str(status))

    def refused(self, spec: ModelSpec, error: EdgeserveError) -> None:
        """A request to a model ends with an error, which may be a refusal."""
        if (reason := REASONS.get(error.code)) is not None:
            self.counters["refusals_total"].add(1, spec.job, spec.id, reason)

    def ended(
        self, spec: ModelSpec, answer: Answer, times: Times, error: EdgeserveError | None, account: Account | None
    ) -> None:
        """An answer has ended. ``account``: of its request over HTTP. Never raises."""
        model = spec.job, spec.id
        self.counters["answers_total"].add(1, *model, error.code if error else answer.end or DONE)
        if error is not None:
            self.refused(spec, error)
        self._time(model, answer, times, whole=error is None)
        self._size(model, answer, times)
        if account is not None:
            _tell(account, answer, times)

    def _time(self, model: tuple[str, str], answer: Answer, times: Times, *, whole: bool) -> None:
        """Observe the times of an answer that had its turn; the whole time of one that came to its end."""
        seen, first = self.histograms, answer.first
        if times.started is None:
            return
        seen["queue_seconds"].observe(times.started - times.arrived, *model)
        if whole:
            seen["request_duration_seconds"].observe(times.ended - times.arrived, *model)
        if first is None:
            return
        seen["time_to_first_token_seconds"].observe(first - times.arrived, *model)
        if answer.tokens:
            seen["prefill_seconds"].observe(first - times.started, *model)
        if (between := answer.tokens - 1) > 0:
            # Once an answer, as often as it has intervals: a clock and a lock for each token would cost more.
            seen["inter_token_seconds"].observe((times.ended - first) / between, *model, times=between)

    def _size(self, model: tuple[str, str], answer: Answer, times: Times) -> None:
        """Count the tokens and the sound of an answer."""
        for name, tokens in (
            ("prompt_tokens_total", answer.prompt_tokens),
            ("prompt_cached_tokens_total", answer.cached_tokens),
            ("generation_tokens_total", answer.tokens),
        ):
            if tokens:
                self.counters[name].add(tokens, *model)
        for direction, seconds in (("heard", answer.heard), ("spoken", answer.spoken)):
            if seconds > 0 and times.started is not None:
                self.counters["audio_seconds_total"].add(seconds, *model, direction)
                self.histograms["real_time_factor"].observe((times.ended - times.started) / seconds, *model)

    def moved(self, spec: ModelSpec, move: Move) -> None:
        """An engine has moved between its rungs."""
        count, model = self.counters, (spec.job, spec.id)
        before, after = move.before.name.lower(), move.after.name.lower()
        count["transitions_total"].add(1, *model, before, after, move.reason)
        if move.ended > move.began:
            self.histograms["transition_seconds"].observe(move.ended - move.began, *model, after)
        if move.after < move.before and move.expected is not None:
            count["reclaimed_bytes_total"].add(move.freed, *model)
            count["reclaim_expected_bytes_total"].add(move.expected, *model)
        if (account := current.get()) is not None and account.span is not None and move.ended > move.began:
            sizes = {} if move.expected is None else {"edgeserve.bytes": move.freed}
            about = {"edgeserve.model": spec.id, "edgeserve.from": before, "edgeserve.to": after}
            account.span.child(
                "transition", move.began, move.ended, {**about, **sizes, "edgeserve.reason": move.reason}
            )


def _tell(account: Account, answer: Answer, times: Times) -> None:
    """Add the answer to the account of its request, and its parts to the trace."""
    account.add(answer, times)
    if (span := account.span) is None:
        return
    span.child("queue", times.arrived, times.ended if times.started is None else times.started, {})
    if times.started is None:
        return
    first = times.ended if answer.first is None else answer.first
    reading = {
        "gen_ai.usage.input_tokens": answer.prompt_tokens,
        "gen_ai.usage.cache_read.input_tokens": answer.cached_tokens,
    }
    span.child("prefill", times.started, first, reading)
    if answer.first is not None:
        reasons: Attributes = {"gen_ai.response.finish_reasons": (answer.end,)} if answer.end else {}
        span.child("decode", first, times.ended, {"gen_ai.usage.output_tokens": answer.tokens, **reasons})
