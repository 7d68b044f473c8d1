"""Requests that made llama.cpp abort, one after the other on a real model, in a process of its own.

It prints one line of JSON for each. Arguments: the model's file, then ``named`` or a seed for random settings.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.contract import ask

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.errors import EdgeserveError
from edgeserve.messages import ChatRequest, FinishEvent, Sampling, TokenEvent

FAR = "".join(chr(0x50000 + index) for index in range(3))
ALL: Any = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


def named() -> Iterator[tuple[str, ChatRequest]]:
    yield "const beyond the tokens", held({"const": "\U00050000"})
    yield "enum beyond the tokens", held({"enum": [FAR, f"{FAR}x"]}, **ALL)
    yield "pattern beyond the tokens", held({"type": "string", "pattern": f"^[{FAR}]+$"})
    yield "name beyond the tokens", held({"type": "object", "properties": {FAR: True}, "required": [FAR]})
    for temperature in (1e-40, 1e-46, 5e-324, 1e-30, 1e-7, 1e-6):
        yield f"temperature {temperature}", ask("Hi", json_object=True, max_tokens=8, sampling=Sampling(temperature))
        yield f"temperature {temperature}, free", ask("Hi", max_tokens=8, sampling=Sampling(temperature))
    against = tuple((token, -100.0) for token in range(1024))
    for name, end in ENDLESS.items():
        for chain, sampling in CHAINS.items():
            fields = end | {"sampling": Sampling(**sampling)}
            yield f"endless {name}, {chain}", ask("Hi", grammar='root ::= "ab"', max_tokens=12, **fields)
    for exponent in (0.01, 1.0, 5.0, 7.0, 7.5, 10.0):
        bias = ((28, 16.0),)
        coldest = Sampling(100.0, 1.0, 2, 0.0, dynatemp_range=100.0, dynatemp_exponent=exponent, logit_bias=bias)
        yield f"temperature from 0 to 100, {exponent}", ask("Hi", max_tokens=8, sampling=coldest)
    yield "biased against", ask("Hi", json_object=True, max_tokens=8, sampling=Sampling(1e-40, logit_bias=against))


ENDLESS: dict[str, Any] = {
    "always": {"ignore_eos": True},
    "for long": {"min_tokens": 50},
    "and stopped": {"min_tokens": 50, "stop_tokens": (1, 2, 3)},
}
"""Answers that may not end, where a grammar allows nothing but the end."""
CHAINS: dict[str, Any] = {
    "greedy": {"temperature": 0.0},
    "drawn": {"temperature": 1.0},
    "mirostat": {"temperature": 1.0, "mirostat": 1},
    "mirostat 2": {"temperature": 1.0, "mirostat": 2},
}


def held(schema: Any, **sampling: Any) -> ChatRequest:
    return ask("Hi", json_schema=json.dumps(schema), max_tokens=12, sampling=Sampling(**sampling))


def randomly(seed: int) -> Iterator[tuple[str, ChatRequest]]:
    draw = random.Random(seed)
    for number in range(20):
        sampling = Sampling(
            temperature=draw.choice([0.0, 1e-45, 1e-38, 1e-6, 0.3, 2.0]),
            top_p=draw.choice([0.0, 5e-324, 0.5, 1.0]),
            top_k=draw.choice([0, 1, 2, 100_000]),
            min_p=draw.choice([0.0, 5e-324, 0.5, 1.0]),
            presence_penalty=draw.choice([-2.0, 0.0, 2.0]),
            frequency_penalty=draw.choice([-2.0, 0.0, 2.0]),
            repeat_penalty=draw.choice([0.01, 1.0, 10.0]),
            seed=draw.choice([-(2**63), -1, 0, 2**32 - 1, 2**63 - 1]),
            typical_p=draw.choice([None, 0.0, 5e-324, 0.5]),
            top_n_sigma=draw.choice([None, 1e-30, 1.0, 100.0]),
            xtc_probability=draw.choice([None, 1.0]),
            xtc_threshold=draw.choice([0.0, 0.1, 1.0]),
            dynatemp_range=draw.choice([None, 5e-324, 100.0]),
            dynatemp_exponent=draw.choice([0.0, 1e-300, 10.0]),
            mirostat=draw.choice([None, None, 1, 2]),
            mirostat_tau=draw.choice([0.0, 100.0]),
            mirostat_eta=draw.choice([0.0, 1.0]),
            repeat_last_n=draw.choice([-1, 0, 1, 64]),
            logit_bias=tuple((draw.randrange(49_000), draw.choice([-100.0, 100.0])) for _ in range(draw.randrange(40))),
        )
        schema = draw.choice(
            [None, {"const": FAR}, {"type": "string", "maxLength": 3}, {"enum": [FAR, 1]}, {"minimum": 3}]
        )
        text = None if schema is None else json.dumps(schema)
        yield (
            str(number),
            ask("Hi", json_schema=text, max_tokens=5, sampling=sampling, logprobs=draw.choice([None, 20])),
        )


def main() -> None:
    options = {"context": 512}
    engine = LlamaChat(ModelSpec("llm", "smollm2", "x", {"model": Path(sys.argv[1])}, threads=1, options=options))
    engine.open()
    engine.heat()
    for name, request in named() if sys.argv[2] == "named" else randomly(int(sys.argv[2])):
        try:
            *tokens, finish = engine.chat(request, threading.Event())
            assert isinstance(finish, FinishEvent)
            text = "".join(one.text for one in tokens if isinstance(one, TokenEvent))
            print(json.dumps([name, finish.reason, text]), flush=True)
        except EdgeserveError as error:
            print(json.dumps([name, type(error).__name__, error.param]), flush=True)
    engine.close()


if __name__ == "__main__":
    main()
