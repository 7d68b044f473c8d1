"""Messages, errors and specs: frozen, picklable, with their derived values."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pytest
from support.cases import each

from edgeserve import errors
from edgeserve.engine import Footprint, ModelSpec
from edgeserve.messages import ChatRequest, ImagePart, Message, Pcm, TextPart, TranscribeRequest


def test_a_message_joins_its_text_and_keeps_its_images() -> None:
    image = ImagePart(b"png")
    message = Message("user", (TextPart("what is "), image, TextPart("this?")))
    assert message.text == "what is this?"
    assert ChatRequest((message, message)).images == (image, image)


def test_samples_come_in_pieces_and_again_from_the_start() -> None:
    data = bytes(range(256)) * 5_000
    audio = Pcm(data)
    pieces = list(audio.pieces())
    assert b"".join(pieces) == data
    assert len(pieces) == 2
    assert list(audio.pieces()) == pieces


def test_requests_are_frozen_and_hide_their_bytes() -> None:
    request = TranscribeRequest(Pcm(b"secret audio"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.language = "en"  # type: ignore[misc]
    assert "secret" not in repr(request)


@each("kind", [one for one in vars(errors).values() if isinstance(one, type)])
def test_errors_survive_pickling_and_have_codes(kind: type[errors.EdgeserveError]) -> None:
    error = kind("what happened", param="field", retry_after=2.0)
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), back.message, back.param, back.retry_after) == (kind, "what happened", "field", 2.0)
    assert str(back) == "what happened"


def test_error_codes_are_unique() -> None:
    """A client knows an error without a code of its own by that of its kind."""
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and "code" in vars(one)]
    assert len({kind.code for kind in kinds}) == len(kinds)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    named = {line.split("──")[1].split()[0] for line in str(errors.__doc__).splitlines() if "──" in line}
    assert named == {name for name, one in vars(errors).items() if isinstance(one, type)} - {"EdgeserveError"}


def test_a_spec_sums_its_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(10))
    spec = ModelSpec("llm", "m", "x:Y", {"model": tmp_path / "a", "gone": tmp_path / "b"})
    assert spec.size_bytes == 10
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_footprint_sums_what_is_in_memory() -> None:
    assert Footprint(mapped=1, private=2, per_request=3, device=100).total == 6
