"""Answers that are right although a check of schemathesis fails: rules that no OpenAPI document can express.

Each rule names a check, the operations, and the answers that it excuses. Any other answer of the operation is a fault.
An answer is one line: the media type of the request, the status, and the error's code, param and message. An error in
Ollama's shape has the code "sentence" and no param. The line of a success ends with the words of schemathesis.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from benchmarks.chaos.replies import SENTENCE

EXCUSED = "EDGESERVE_FUZZ_EXCUSED"
"""Variable of the environment: the file for the number of answers that each rule excused."""
ACCEPTED, REFUSED, SERVER = "negative_data_rejection", "positive_data_acceptance", "not_a_server_error"
METHOD = "unsupported_method"


@dataclass(frozen=True, slots=True)
class Rule:
    """``operations`` and ``answers`` are regular expressions; the whole operation and the beginning of an answer."""

    check: str
    operations: str
    answers: str
    reason: str


FORMS = r"POST /v1/(audio/(transcriptions|translations)|transcribe/file|vision/(analyze|ocr))"
CHATS = r"POST /(v1/chat(/stream|/completions(/input_tokens)?)?|apply-template|tokenize)"
ANTHROPIC = r"POST /v1/messages(/count_tokens)?"
OPENAI = r"POST /v1/(chat/)?completions"
RESPONSES = r"POST /v1/responses(/input_tokens)?"
SPEECH = r"POST /v1/(audio/speech|tts/synthesize)"
SOUND = r"POST /v1/(audio/transcriptions|transcribe/(file|stream))"
LIVE = r"POST /v1/transcribe/(push|flush)"
RULES = (
    Rule(
        REFUSED,
        r"POST /api/(chat|generate|embed|embeddings|show)",
        r"(?s)\S+ 40[04] sentence None: (model '.*' not found|\".*\" does not support )",
        "a model that there is, and that can do what is asked",
    ),
    Rule(
        REFUSED,
        r"POST /api/(chat|generate)",
        r"(?s)\S+ (400|413|415) sentence None: (messages\[\d+\]\.)?images",
        "pictures are real ones, and few",
    ),
    Rule(
        REFUSED,
        r"POST /api/generate",
        r"\S+ 400 sentence None: (context is not the context|\w+ cannot stand beside raw)",
        "a context of this server, and nothing beside a raw prompt",
    ),
    Rule(
        REFUSED,
        r"POST /api/chat",
        r"\S+ 400 sentence None: messages\[\d+\]\.tool_calls\[\d+\]\.function\.arguments must be the text",
        "the arguments of a call are an object, or JSON in a text",
    ),
    Rule(
        REFUSED,
        r"POST /api/embed",
        r"\S+ 400 sentence None: (dimensions is \d+; vectors|the input length exceeds)",
        "vectors and contexts have the lengths of their model",
    ),
    Rule(
        REFUSED,
        r"POST /api/(copy|create|push|blobs/\{digest\})|GET /api/blobs/\{digest\}",
        r"\S+ 40[04] sentence None: .* not supported by this server",
        "no model is made here",
    ),
    Rule(REFUSED, r"POST /api/pull|DELETE /api/delete", r"(?s)\S+ 40[049] sentence None: ", "a model that is known"),
    Rule(
        REFUSED,
        r"POST /(v[12]/)?rerank(ing)?",
        r"\S+ 400 \w+ (documents|texts|query|top_n|rank_fields)\S*: ",
        "documents or texts and not both, and a query that leaves them room",
    ),
    Rule(REFUSED, r"POST /(v1/)?score", r"\S+ 400 \w+ text_[12]\S*: ", "one text to judge by, or as many as texts"),
    Rule(REFUSED, "PATCH /admin/config", r"(?s)\S+ 400 \w+ .*: ", "keys of settings have bounds of their own"),
    Rule(
        REFUSED, r"POST /slots/\{slot\}", r"\S+ 40[03] \w+ \S+: ", "a slot that there is, and a name of a file to save"
    ),
    Rule(REFUSED, "DELETE /models", r"\S+ 40[0349] \w+ \S*: ", "a model that was pulled"),
    Rule(
        REFUSED,
        CHATS,
        r"(?s)\S+ 400 \w+ messages\[\d+\]\.tool_call_id: .* answers no call of the messages before it",
        "a tool's message answers a call of the messages before it",
    ),
    Rule(
        REFUSED,
        CHATS,
        r"\S+ (400|403|415) \w+ messages\[\d+\]\.content\[\d+\]\.image_url",
        "a picture is a real one, and its address is allowed",
    ),
    Rule(
        REFUSED,
        RESPONSES,
        r"(?s)\S+ 40[04] \w+ (previous_response_id|input\[\d+\]): .* not found",
        "a response, and an item, that the server has stored",
    ),
    Rule(
        REFUSED,
        RESPONSES,
        r"(?s)\S+ (400|403|413|415) \w+ input(: input holds|\[\d+\]\.(content|output)\[\d+\])",
        "an input holds a message, and its pictures, sounds and files are real ones and few",
    ),
    Rule(
        REFUSED,
        RESPONSES,
        r"(?s)\S+ 400 \w+ (tool_choice\S*: .*(needs tools|none of the tools)|tools\S*\.name: .* is there twice)",
        "tool_choice names one of the functions, and each function has a name of its own",
    ),
    Rule(
        REFUSED,
        r"(GET|DELETE|POST) /v1/responses/\{response\}(/input_items|/cancel)?",
        r"(?s)\S+ 40[04] \w+ (response_id|stream|after): ",
        "a stored response, none of which is streamed or cancelled",
    ),
    Rule(REFUSED, CHATS, r"\S+ 400 \w+ messages: messages hold \d+ images", "all messages together have few pictures"),
    Rule(
        REFUSED,
        CHATS,
        r"(?s)\S+ 400 \w+ \S+\.arguments: \S+ must be the text of a JSON object",
        "the arguments of a call are JSON in a text",
    ),
    Rule(
        REFUSED,
        r"POST /(v1/chat/completions(/input_tokens)?|apply-template|tokenize)",
        r"\S+ 400 \w+ (tool_choice\S*|tools\S*|functions?\S*): ",
        "tool_choice names one of the tools, and each tool has a name of its own",
    ),
    Rule(
        REFUSED,
        r"POST /(v1/chat/completions(/input_tokens)?|v1/completions|completions?|infill|apply-template|tokenize)",
        r"(?s)\S+ 400 \w+ \S+: (.* cannot stand beside .*: both say the form|guided_json must be a JSON schema)",
        "one field says the form of the answer, and a schema is one",
    ),
    Rule(
        REFUSED, r"POST /(\S+)", r"\S+ 400 \w+ id_slot: there are slots 0 to \d+, and no slot", "slots that there are"
    ),
    Rule(
        ACCEPTED,
        r"[A-Z]+ /\S*",
        r"\S+ 431 invalid_request None: the request's head has more than 16 KB",
        "a head is no longer than 16 KB",
    ),
    Rule(REFUSED, "POST /detokenize", r"\S+ 400 \w+ tokens: token \d+ is not in the vocabulary", "tokens of the model"),
    Rule(
        REFUSED,
        r"POST /v1/chat(/\w+)?",
        r"\S+ 400 \w+ lora\[\d+\]\.id: .* this model has no adapters",
        "adapters that the model has",
    ),
    Rule(
        REFUSED,
        CHATS,
        r"\S+ (400|413|415) \w+ messages\[\d+\]\.content\[\d+\]\.(file|input_audio)\S*: ",
        "a file of a message is a real one",
    ),
    Rule(REFUSED, "POST /v1/chat/completions", r"\S+ 400 \w+ top_logprobs: ", "top_logprobs needs logprobs"),
    Rule(
        REFUSED,
        "POST /v1/chat/completions",
        r"(?s)multipart/form-data 400 \w+ .*: the part .* is no file",
        "schemathesis writes some files of a form as fields",
    ),
    Rule(
        REFUSED,
        ANTHROPIC,
        r"(?s)\S+ (400|403|413|415) \w+ messages(: messages hold \d+ images|\[\d+\]\.content\[\d+\]\S*\.source: )",
        "pictures of blocks are real ones, few, and at addresses that are allowed",
    ),
    Rule(
        REFUSED,
        ANTHROPIC,
        r"\S+ 400 \w+ (tool_choice|tools\[\d+\]\.name): ",
        "a choice names one of the tools, whose names differ",
    ),
    Rule(REFUSED, OPENAI, r"\S+ 400 \w+ stream_options: ", "stream_options needs stream"),
    Rule(REFUSED, "POST /v1/completions", r"\S+ 400 \w+ (best_of|n|logprobs|echo): ", "fields that do not go together"),
    Rule(
        REFUSED,
        "POST /v1/embeddings",
        r"\S+ 400 \w+ dimensions: dimensions is \d+; vectors of this model have",
        "each model has its own dimensions",
    ),
    Rule(REFUSED, SPEECH, r"\S+ 400 \w+ voice: unknown voice", "each model has its own voices"),
    Rule(
        REFUSED,
        "POST /v1/audio/speech",
        r"\S+ 400 \w+ input: input has \d+ characters",
        "a whole wav has another limit",
    ),
    Rule(REFUSED, SOUND, r"\S+ 400 \w+ language: unknown language", "each model has its own languages"),
    Rule(
        REFUSED,
        "POST /v1/audio/transcriptions",
        r"\S+ 400 \w+ response_format: response_format must be (json or text where|diarized_json or verbose_json)",
        "events hold json or text, and speakers are named in two forms",
    ),
    Rule(
        ACCEPTED, FORMS, r"multipart/form-data 200 .*violates `type`", "a form holds text, so a wrong type may be right"
    ),
    Rule(REFUSED, FORMS, r"\S+ 415 unsupported_media (file|audio|image): ", "the file holds sound, or a picture"),
    Rule(
        REFUSED,
        "POST /v1/transcribe/push",
        r"\S+ (400|415) \w+ None: the (sound|samples) ",
        "the body holds whole samples",
    ),
    Rule(
        REFUSED,
        LIVE,
        r"\S+ 400 \w+ session: the header X-Session-Id and the query",
        "a query and a header exclude each other",
    ),
    Rule(
        SERVER,
        r"POST /(models|admin)/unload|POST /memory/evict/\{engine\}",
        r"\S+ 503 \w+ \S+: \S+ is answering a request; it is not closed under it",
        "the answer to the request before may still end",
    ),
    Rule(
        METHOD,
        "POST /lora-adapters|GET /lora-adapters",
        r"\S+ 400 \w+ \S+: POST /lora-adapters would change the answers of all clients",
        "a method of another server is refused in words",
    ),
)


def answer(media: str, status: int, body: bytes, words: str) -> str:
    """The answer as a line. ``media``: the Content-Type of the request; ``words`` of schemathesis about a success."""
    line = f"{media.partition(';')[0] or 'none'} {status}"
    if status < 400:
        return f"{line} {' '.join(words.split())}"
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return f"{line} {body[:200]!r}"
    if isinstance(error, str):
        return f"{line} {SENTENCE} None: {error}"
    return f"{line} {error['code']} {error['param']}: {error['message']}"


def rule(check: str, operation: str, line: str) -> Rule | None:
    """The rule that excuses the answer; None for a fault."""
    for one in RULES:
        if one.check == check and re.fullmatch(one.operations, operation) and re.match(one.answers, line):
            return one
    return None
