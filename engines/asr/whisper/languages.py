"""Which languages a Whisper knows: told by how many tokens it has, before anything of it is opened."""

from __future__ import annotations

CODES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la mi ml",
    "cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am",
    "yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue",
)
"""In the order of their tokens (openai/whisper tokenizer.py); later models have more of them."""
MULTILINGUAL, FEWEST = 51_865, 99
"""Tokens of the smallest vocabulary that has languages (openai/whisper model.py), and how many it has."""


def codes(vocabulary: int) -> tuple[str, ...]:
    """Those that a model with so many tokens knows."""
    if vocabulary < MULTILINGUAL:
        return ("en",)
    return tuple(" ".join(CODES).split()[: FEWEST + vocabulary - MULTILINGUAL])
