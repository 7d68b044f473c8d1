"""Thoughts apart from the answer, however the text is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.engines.thinking import CLOSE, OPEN, Teller, Thoughts, opened_by
from edgeserve.messages import Candidate, ReasoningEvent, TokenEvent, TokenLogprob


def split(pieces: list[str], *, opened: bool = False) -> tuple[str, str]:
    """All thoughts and all of the answer."""
    thoughts = Thoughts(opened=opened)
    told = [one for piece in pieces for one in thoughts.feed(piece)] + list(thoughts.flush())
    assert all(text for _, text in told)
    assert sorted(told, key=lambda one: not one[0]) == told, "thoughts come first"
    return "".join(text for thought, text in told if thought), "".join(text for thought, text in told if not thought)


def at_once(text: str, *, opened: bool) -> tuple[str, str]:
    """The rule, on the whole text."""
    begun = text.lstrip()
    if not opened and not begun.startswith(OPEN):
        return "", text
    inner, closed, after = (text if opened else begun.removeprefix(OPEN)).partition(CLOSE)
    return inner.strip(), after.lstrip() if closed else ""


@each(
    ("text", "opened", "expected"),
    [
        ("<think>\nHm.\n</think>\n\nParis.", False, ("Hm.", "Paris.")),
        ("\n <think>Hm.</think>Paris.", False, ("Hm.", "Paris.")),
        ("Hm.\n</think>\n\nParis.\n", True, ("Hm.", "Paris.\n")),
        ("<think>\n\n</think>\n\nParis.", False, ("", "Paris.")),
        ("<think>never closed ", False, ("never closed", "")),
        ("<think>almost </thin", False, ("almost </thin", "")),
        ("  Paris. <think>no</think>", False, ("", "  Paris. <think>no</think>")),
        ("<thin", False, ("", "<thin")),
        ("<thinking>", False, ("", "<thinking>")),
        ("", True, ("", "")),
    ],
)
def test_examples(text: str, opened: bool, expected: tuple[str, str]) -> None:
    assert split([text], opened=opened) == expected
    assert split(list(text), opened=opened) == expected


FRAGMENTS = st.lists(st.sampled_from([OPEN, CLOSE, "<", "</", "think", ">", " ", "\n", "a", "b c", "é"]), max_size=12)


@given(fragments=FRAGMENTS, opened=st.booleans(), cuts=st.lists(st.integers(1, 6), max_size=40))
def test_it_does_not_matter_how_the_text_is_cut(fragments: list[str], opened: bool, cuts: list[int]) -> None:
    text = rest = "".join(fragments)
    pieces = []
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert split([*pieces, rest], opened=opened) == at_once(text, opened=opened)


@given(text=st.text(max_size=30), opened=st.booleans())
def test_any_text(text: str, opened: bool) -> None:
    assert split(list(text), opened=opened) == at_once(text, opened=opened)


def test_what_is_certain_is_told_at_once() -> None:
    thoughts = Thoughts()
    assert [list(thoughts.feed(one)) for one in ("<think>", "I", " see", " ", "</think>", "\n", "Yes", " it is")] == [
        [], [(True, "I")], [(True, " see")], [], [], [], [(False, "Yes")], [(False, " it is")]
    ]  # fmt: skip


def test_logprobs_are_those_of_the_answer_and_thoughts_are_counted() -> None:
    teller = Teller(Thoughts())
    events = []
    for text in ("<think>", "Hm", "</think>", "\n\n", "Par", "is"):
        teller.note(TokenLogprob(Candidate(text.encode(), -1.0)))
        events += teller.feed(text)
    events += teller.finish("")
    assert events[0] == ReasoningEvent("Hm")
    told = [event for event in events if isinstance(event, TokenEvent)]
    assert [event.text for event in told] == ["Par", "is"]
    assert [one.token.text for event in told for one in event.logprobs] == ["Par", "is"]
    assert teller.reasoning_tokens == 4


def test_without_thoughts_tags_are_text() -> None:
    teller = Teller(None)
    assert [*teller.feed("<think>"), *teller.finish("x")] == [TokenEvent("<think>"), TokenEvent("x")]
    assert teller.reasoning_tokens == 0


def test_a_template_that_opens_the_thoughts() -> None:
    assert opened_by("<|assistant|>\n<think>\n")
    assert not opened_by("<|assistant|>\n<think>\n\n</think>\n\n")
