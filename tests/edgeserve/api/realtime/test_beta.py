from __future__ import annotations

from edgeserve.api.limits import Limits
from edgeserve.api.realtime import beta
from edgeserve.api.realtime.config import Config


def test_flat_settings_go_to_their_place_and_come_back() -> None:
    given = {
        "modalities": ["text"],
        "voice": "alloy",
        "input_audio_format": "g711_ulaw",
        "output_audio_format": "pcm16",
        "input_audio_transcription": {"model": "whisper-1"},
        "turn_detection": None,
        "max_response_output_tokens": 7,
    }
    config = Config.new(Limits()).changed(beta.whole(given), Limits())
    assert (config.source.name, config.target.name) == ("audio/pcmu", "audio/pcm")
    assert (config.speaks, config.rules, config.settings.max_output_tokens) == (False, None, 7)
    assert given.items() <= beta.flat(config.written).items()


def test_settings_of_today_stay_as_they_are() -> None:
    given = {"output_modalities": ["audio"], "audio": {"input": {"turn_detection": None}}}
    assert beta.whole(given) == given


def test_events_have_the_names_of_the_beta() -> None:
    assert beta.event({"type": "conversation.item.done"}) is None
    assert beta.event({"type": "input_audio_buffer.cleared"}) == {"type": "input_audio_buffer.cleared"}
    item = {"id": "a", "content": [{"type": "output_audio", "transcript": "hi"}]}
    told = beta.event({"type": "conversation.item.added", "item": item})
    assert told == {
        "type": "conversation.item.created",
        "item": {"id": "a", "content": [{"type": "audio", "transcript": "hi"}]},
    }
