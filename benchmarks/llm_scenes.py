"""Requests that compare two chat servers: each scene gives figures by name."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.streams import Answer, Stream, percentile

Figures = Mapping[str, float]
Scene = Callable[[int, int], Figures]
"""Takes a port and a round. Both servers get the same requests in the same round."""

WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
)
WORDS += (
    "part place case week company system program question work number night point home water room mother area money "
)
WORDS += "story fact month lot right study book eye job word business issue side kind head house service friend father"
SAMPLING = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.0}
"""llama-server's defaults, named so that both do the same work: ours takes what the model's entry says otherwise."""
CLIENTS = (1, 4, 8)
PREFIX, LONG, COLD = 900, 900, 450
"""Words: some tokens more, with what the template adds."""


def body(text: str, tokens: int, dice: random.Random, endings: tuple[int, ...], *, system: str = "") -> dict[str, Any]:
    """A conversation that no cache knows from its first words on, answered with exactly so many tokens."""
    head = system or f"Note {dice.randrange(10**9)}."
    messages = [{"role": "system", "content": head}, {"role": "user", "content": text}]
    bias = {str(token): -100 for token in endings}
    sampling = {**SAMPLING, "seed": dice.randrange(2**31)}
    return {"messages": messages, "max_tokens": tokens, "logit_bias": bias, **sampling}


def words(dice: random.Random, count: int) -> str:
    return " ".join(dice.choices(WORDS.split(), k=count))


class Scenes:
    """``endings``: tokens that would end an answer early. ``prompts``: tokens of the prompts, by scene, as counted."""

    def __init__(self, endings: tuple[int, ...]) -> None:
        self._endings = endings
        self.prompts: dict[str, int] = {}

    def all(self) -> dict[str, Scene]:
        steady: dict[str, Scene] = {f"{clients} clients": self._steady(clients) for clients in CLIENTS}
        return {**steady, "cold": self.cold, "prefix": self.prefix, "long": self.long}

    def _body(self, text: str, tokens: int, dice: random.Random, system: str = "") -> dict[str, Any]:
        return body(text, tokens, dice, self._endings, system=system)

    def _steady(self, clients: int) -> Scene:
        def scene(port: int, turn: int) -> Figures:
            dice = random.Random(f"steady {clients} {turn}")
            sizes = [dice.randrange(56, 73) * (2 if clients == 1 else 1) for _ in range(clients)]
            asks = [Stream(port, self._body(words(dice, 30), size, dice)) for size in sizes]
            answers = asyncio.run(together(asks))
            self._counted("short", answers[0])
            if [one.said for one in answers] != sizes:
                raise RuntimeError(f"answers of {[one.said for one in answers]} tokens instead of {sizes}")
            seconds = max(one.times[-1] for one in answers) - min(one.sent for one in answers)
            gaps = [gap for one in answers for gap in one.gaps]
            first = 1000 * statistics.median(one.first for one in answers)
            figures = {f"rate {clients}": sum(sizes) / seconds, f"p99 {clients}": 1000 * percentile(gaps, 0.99)}
            return {**figures, f"first {clients}": first}

        return scene

    def cold(self, port: int, turn: int) -> Figures:
        """Two prompts that no cache knows, one after the other."""
        dice = random.Random(f"cold {turn}")
        answers = [asyncio.run(Stream(port, self._body(words(dice, COLD), 4, dice)).run()) for _ in range(2)]
        self._counted("cold", answers[0])
        read = statistics.median((one.prompt - one.cached) / one.first for one in answers)
        return {"cold": 1000 * statistics.median(one.first for one in answers), "read": read}

    def prefix(self, port: int, turn: int) -> Figures:
        """Questions about a long text, after a first one has brought it in."""
        dice = random.Random(f"prefix {turn}")
        system = f"Note {dice.randrange(10**9)}. {words(dice, PREFIX)}"
        answers = []
        for _ in range(4):
            stream = Stream(port, self._body(words(dice, 12), 4, dice, system))
            answers.append(asyncio.run(stream.run()))
        self._counted("prefix", answers[-1])
        return {"prefix": 1000 * statistics.median(one.first for one in answers[1:])}

    def long(self, port: int, turn: int) -> Figures:
        """A long prompt arrives while three streams run."""
        dice = random.Random(f"long {turn}")
        streams = [Stream(port, self._body(words(dice, 30), 160, dice)) for _ in range(3)]
        late = Stream(port, self._body(words(dice, LONG), 4, dice))

        async def arriving() -> list[Answer]:
            tasks = [asyncio.create_task(one.run()) for one in streams]
            for one in streams:
                await one.flowing.wait()
            return [await late.run(), *await asyncio.gather(*tasks)]

        newcomer, *running = asyncio.run(arriving())
        self._counted("long", newcomer)
        until = newcomer.times[0]
        if not all(one.times[-1] > until for one in running):
            raise RuntimeError("the streams ended before the long prompt was taken in")
        gaps = [
            1000 * (later - earlier)
            for one in running
            for earlier, later in itertools.pairwise(one.times)
            if later > newcomer.sent and earlier < until
        ]
        told = sum(newcomer.sent < at <= until for one in running for at in one.times)
        return {
            "long first": 1000 * newcomer.first,
            "long gap": max(gaps),
            "long rate": told / (until - newcomer.sent),
        }

    def _counted(self, name: str, answer: Answer) -> None:
        """Raises RuntimeError when the servers do not read the same prompt in the same way."""
        near = self.prompts.setdefault(name, answer.prompt)
        if abs(near - answer.prompt) > max(10, 0.05 * near):
            raise RuntimeError(f"a prompt of {answer.prompt} tokens where another had {near}")


async def together(asks: list[Stream]) -> list[Answer]:
    return list(await asyncio.gather(*(one.run() for one in asks)))
