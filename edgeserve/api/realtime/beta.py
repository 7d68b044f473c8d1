"""The shapes of the beta, for clients that ask for it by the header ``OpenAI-Beta: realtime=v1``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "response.output_audio.delta": "response.audio.delta",
        "response.output_audio.done": "response.audio.done",
        "response.output_audio_transcript.delta": "response.audio_transcript.delta",
        "response.output_audio_transcript.done": "response.audio_transcript.done",
        "response.output_text.delta": "response.text.delta",
        "response.output_text.done": "response.text.done",
        "conversation.item.added": "conversation.item.created",
    }
)
FORMATS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "pcm16": {"type": "audio/pcm", "rate": 24_000},
        "g711_ulaw": {"type": "audio/pcmu"},
        "g711_alaw": {"type": "audio/pcma"},
    }
)
PARTS: Mapping[str, str] = MappingProxyType({"output_text": "text", "output_audio": "audio"})
OF_INPUT: Mapping[str, str] = MappingProxyType(
    {
        "input_audio_format": "format",
        "input_audio_transcription": "transcription",
        "input_audio_noise_reduction": "noise_reduction",
        "turn_detection": "turn_detection",
    }
)
OF_OUTPUT: Mapping[str, str] = MappingProxyType({"output_audio_format": "format", "voice": "voice", "speed": "speed"})


def whole(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a session or an answer, flat as in the beta, in today's shape. Today's fields stay as they are."""
    new = dict(given)
    for place, names in (("input", OF_INPUT), ("output", OF_OUTPUT)):
        audio = new.get("audio") or {}
        inner = audio.get(place) or {} if isinstance(audio, Mapping) else None
        if not isinstance(inner, Mapping):
            continue  # which its reader refuses
        if found := {own: _form(new.pop(name)) for name, own in names.items() if name in new}:
            new["audio"] = {**audio, place: {**inner, **found}}
    for old, name in (("modalities", "output_modalities"), ("max_response_output_tokens", "max_output_tokens")):
        if old in new:
            new[name] = new.pop(old)
    return new


def _form(value: Any) -> Any:
    return dict(FORMATS[value]) if isinstance(value, str) and value in FORMATS else value


def flat(session: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the beta writes them."""
    audio = session.get("audio") or {}
    formats = {str(value["type"]): name for name, value in FORMATS.items()}
    flat = {name: value for name, value in session.items() if name not in ("audio", "output_modalities", "type")}
    for place, names in (("input", OF_INPUT), ("output", OF_OUTPUT)):
        for name, own in names.items():
            value = (audio.get(place) or {}).get(own)
            flat[name] = formats.get(str(value.get("type")), "pcm16") if own == "format" and value else value
    if "output_modalities" in session:
        modalities = session["output_modalities"]
        flat["modalities"] = ["audio", "text"] if modalities is None or "audio" in modalities else ["text"]
        flat["max_response_output_tokens"] = flat.pop("max_output_tokens", "inf")
    return flat


def event(given: dict[str, Any]) -> dict[str, Any] | None:
    """A server's event as the beta writes it; None for one that the beta does not have."""
    kind = given["type"]
    if kind == "conversation.item.done":
        return None
    new = given | {"type": NAMES.get(kind, kind)}
    if "session" in new:
        new["session"] = flat(new["session"])
    if "item" in new:
        new["item"] = _item(new["item"])
    if "response" in new:
        new["response"] = new["response"] | {"output": [_item(one) for one in new["response"]["output"]]}
    return new


def _item(item: dict[str, Any]) -> dict[str, Any]:
    if "content" not in item:
        return item
    parts = [one | {"type": PARTS.get(one["type"], one["type"])} for one in item["content"]]
    return item | {"content": parts}
