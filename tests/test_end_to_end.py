"""The whole product as a user meets it: the command, real models, curl."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.mmproj import build_mmproj, picture
from benchmarks.process import ServerProcess, free_port
from openai import BadRequestError, OpenAI
from support.speech import SENTENCES, decoded, likeness, word_error_rate

from edgeserve.audio.encode import FORMS
from edgeserve.models.store import Store

pytestmark = pytest.mark.models


class Server:
    """``edgeserve serve`` in a process of its own, warnings of Python turned into errors."""

    def __init__(self, config: Path, *flags: str) -> None:
        self.port = free_port()
        python = [sys.executable, "-W", "error", "-X", "dev", "-m", "edgeserve"]
        command = [*python, "serve", "--config", str(config), "--port", str(self.port), *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ServerProcess(self.process, self.port, time.perf_counter()).wait_healthy()  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Exit code, standard output and standard error after the signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, errors = self.process.communicate(timeout=60)
        return self.process.returncode, out, errors


@pytest.fixture(scope="module")
def config(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("device")
    models = {job: store.pull(name).name for job, name in STARTERS.items()}
    projector = build_mmproj(store.find(models["llm"]).files["model"], folder / "mmproj.gguf")
    text = "".join(f'[{job}]\nmodel = "{name}"\n' for job, name in models.items())
    text += f'[vision]\nmodel = "{models["llm"]}"\nmmproj = "{projector}"\n'
    (folder / "models.toml").write_text(text, encoding="utf-8")
    return folder / "models.toml"


STARTERS = {"llm": "smollm2-135m-instruct", "asr": "whisper-tiny.en", "tts": "hibari"}


@pytest.fixture(scope="module")
def server(config: Path) -> Iterator[Server]:
    server = Server(config)
    yield server
    code, _, errors = server.end()
    assert code == 0
    assert "Warning" not in errors


def test_schemas_and_tools_through_the_official_client(server: Server) -> None:
    """Even a model of 135 million parameters says a valid call and a valid answer."""
    ai = OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    ask: Any = {"model": "llm", "messages": [{"role": "user", "content": "Weather in Rome?"}], "max_tokens": 60}
    city = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "weather", "parameters": city}}
    answer = ai.chat.completions.create(**ask, tools=[tool], tool_choice="required", parallel_tool_calls=False)
    (call,) = answer.choices[0].message.tool_calls or []
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)["city"] in ("Rome", "Oslo")
    chunks = list(ai.chat.completions.create(**ask, tools=[tool], tool_choice="required", stream=True))
    deltas = [one for chunk in chunks for one in chunk.choices[0].delta.tool_calls or []]
    assert deltas
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    history = [*ask["messages"], answer.choices[0].message.model_dump(exclude_none=True)]
    history.append({"role": "tool", "tool_call_id": call.id, "content": "rain"})
    later = ai.chat.completions.create(**ask | {"messages": history}, tools=[tool])
    assert later.usage is not None
    assert later.usage.completion_tokens > 0
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": city, "strict": True}}
    said = ai.chat.completions.create(**ask, response_format=form).choices[0].message.content
    assert json.loads(said or "")["city"] in ("Rome", "Oslo")
    form["json_schema"] = {"name": "city", "schema": {"not": city}, "strict": True}
    with pytest.raises(BadRequestError, match="response_format: the schema uses not") as caught:
        ai.chat.completions.create(**ask, response_format=form, stream=True)
    assert caught.value.param == "response_format"
    strange = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "if": city}}}
    strange["function"]["strict"] = True  # type: ignore[index]
    with pytest.raises(BadRequestError, match=r"tools\[0\].function.parameters: the schema uses if"):
        ai.chat.completions.create(**ask, tools=[strange], tool_choice="required")


def curl(*arguments: str) -> bytes:
    assert shutil.which("curl"), "these tests use curl, as the README does; install it"
    return subprocess.run(["curl", "-sS", "--fail-with-body", *arguments], capture_output=True, check=True).stdout


def post(url: str, body: Any, *more: str) -> bytes:
    return curl(url, "-H", "Content-Type: application/json", "-d", json.dumps(body), *more)


def test_the_capital_of_france(server: Server) -> None:
    answer = json.loads(post(f"{server.url}/v1/chat", {"prompt": "What is the capital of France?"}))
    assert "Paris" in answer["text"]


def test_the_openai_client_streams_it(server: Server) -> None:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none") as ai:
        question = [{"role": "user", "content": "What is the capital of France?"}]
        chunks = ai.chat.completions.create(model="smollm2-135m-instruct", messages=question, stream=True)
        assert "Paris" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


@pytest.mark.parametrize("sentence", SENTENCES[:3])
def test_what_is_spoken_is_understood(server: Server, tmp_path: Path, sentence: str) -> None:
    file = tmp_path / "said.wav"
    post(f"{server.url}/v1/tts/synthesize", {"text": sentence}, "-o", str(file))
    heard = json.loads(curl(f"{server.url}/v1/transcribe/file", "-F", f"audio=@{file}"))
    assert word_error_rate(sentence, heard["text"]) <= 0.10
    assert heard["segments"]


SPEECH: Any = {"model": "tts", "voice": "alloy", "input": " ".join(SENTENCES[:2])}


@pytest.fixture(scope="module")
def plain(server: Server) -> tuple[Any, int]:
    """The samples of the speech as WAV, and their rate."""
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as ai:
        return decoded(ai.audio.speech.create(**SPEECH, response_format="wav").content, "wav")


@pytest.mark.parametrize("form", FORMS)
def test_speech_in_every_format(server: Server, plain: tuple[Any, int], form: Any) -> None:
    """Through the official client; each is the same sound, and comes in several pieces."""
    samples, rate = plain
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as ai:
        speech = ai.audio.speech
        with speech.with_streaming_response.create(**SPEECH, response_format=form, stream_format="audio") as answer:
            file = b"".join(answer.iter_bytes())
        with speech.with_streaming_response.create(**SPEECH, response_format=form, stream_format="sse") as answer:
            told = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    heard, at = decoded(file, form)
    assert abs(len(heard) / at - len(samples) / rate) < 0.1
    assert likeness(samples, rate, heard, at) > 0.9
    assert told[-1]["usage"]["output_seconds"] == round(len(samples) / rate, 3)
    assert len(told) > 2


@pytest.mark.parametrize("colour", ["red", "blue"])
def test_pictures_are_told_apart(server: Server, tmp_path: Path, colour: str) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(picture(colour))
    answer = curl(f"{server.url}/v1/vision/analyze", "-F", f"image=@{file}", "-F", "prompt=Describe this image.")
    assert colour in json.loads(answer)["text"]


def test_language_and_vision_start_warm_and_speech_cold(config: Path) -> None:
    server = Server(config)
    rungs = httpx.get(f"{server.url}/v1/health").json()["rungs"]
    assert rungs == {"llm": "warm", "vision": "warm", "asr": "cold", "tts": "cold"}
    code, out, _ = server.end(signal.SIGINT)
    assert code == 0
    assert out.count("curl") == 3


def draining(seconds: float, config: Path, folder: Path) -> Path:
    """The configuration with a drain time of its own."""
    (folder / "models.toml").write_text(f"[server]\ndrain_seconds = {seconds}\n{config.read_text()}", encoding="utf-8")
    return folder / "models.toml"


def test_sigterm_lets_a_stream_end(config: Path, tmp_path: Path) -> None:
    server = Server(draining(60, config, tmp_path))
    body = {"prompt": "Tell me a story about the sea.", "max_length": 60}
    with httpx.stream("POST", f"{server.url}/v1/chat/stream", json=body, timeout=60) as stream:
        lines = (line for line in stream.iter_lines() if line)
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        (*_, last) = lines
    assert json.loads(last.removeprefix("data: ")).get("done"), last
    code, _, errors = server.end()
    assert code == 0
    assert "Warning" not in errors


def test_sigterm_tells_a_stream_that_takes_too_long(config: Path, tmp_path: Path) -> None:
    server = Server(draining(0.2, config, tmp_path))
    body = {"messages": [{"role": "user", "content": "Count up."}], "stream": True, "logit_bias": {"2": -100}}
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as stream:
        lines = (line for line in stream.iter_lines() if line)
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        *_, told, done = list(lines)
    assert json.loads(told.removeprefix("data: "))["error"]["code"] == "shutting_down"
    assert done == "data: [DONE]"
    code, _, errors = server.end()
    assert code == 0
    assert "Warning" not in errors


def test_a_broken_model_is_one_clear_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(60))
    command = [sys.executable, "-m", "edgeserve", "serve", "--llm", str(broken), "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ended.returncode == 1
    assert "broken.gguf: llama.cpp cannot load it" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_in_use_is_one_clear_error(server: Server, config: Path) -> None:
    command = [sys.executable, "-m", "edgeserve", "serve", "--config", str(config), "--port", str(server.port)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {server.port}" in ended.stderr
    assert "Traceback" not in ended.stderr
