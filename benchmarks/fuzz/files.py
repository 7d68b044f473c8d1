"""Cases for rooms that no route reaches: GGUF files and chat templates."""

from __future__ import annotations

import random

from benchmarks.fuzz import corpus
from benchmarks.fuzz.case import Case, File
from benchmarks.fuzz.mutate import mutated

LOADED = 0.3
"""Share of the GGUF files that llama.cpp's own loader reads too."""


def gguf_case(dice: random.Random, number: int) -> Case:
    name, whole = dice.choice(list(corpus.headers().items()))
    data = mutated(whole, dice, corpus.GGUF_WORDS)
    steps = [File("header", data)]
    if name == "llama" and dice.random() < LOADED:
        steps.append(File("loader", data))
    return Case("gguf", number, name, steps)


def template_case(dice: random.Random, number: int) -> Case:
    """A template that is broken, or made of the words of templates alone."""
    if dice.random() < 0.75:
        name, data = "broken template", mutated(dice.choice(corpus.TEMPLATES).encode(), dice, corpus.TEMPLATE_WORDS)
    else:
        name, data = "words of templates", b"".join(dice.choices(corpus.TEMPLATE_WORDS, k=dice.randrange(1, 12)))
    return Case("templates", number, name, [File("template", data)])
