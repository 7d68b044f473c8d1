"""Clients on Node."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NODE = os.environ.get("EDGESERVE_CLIENTS_NODE", "")
OPENAI = """
import OpenAI from "openai";
const ai = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Name a bird in one word." }];
"""
CHAT = """
const answer = await ai.chat.completions.create({ model: "gpt-4o", messages, max_tokens: 16 });
console.log(answer.choices[0].message.content);
"""
STREAM = """
const events = await ai.chat.completions.create({ model: "gpt-4o", messages, max_tokens: 16, stream: true });
for await (const one of events) process.stdout.write(one.choices[0]?.delta?.content ?? "");
"""
SPEECH = """
const spoken = await ai.audio.speech.create(
  { model: "tts-1", voice: "alloy", input: "Good morning.", response_format: "wav" });
const file = await OpenAI.toFile(Buffer.from(await spoken.arrayBuffer()), "a.wav");
console.log((await ai.audio.transcriptions.create({ model: "whisper-1", file })).text);
"""
ANTHROPIC = """
import Anthropic from "@anthropic-ai/sdk";
const ai = new Anthropic({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
const asked = { model: "smollm2-135m-instruct", max_tokens: 64 };
const messages = [{ role: "user", content: "Name a bird in one word." }];
const tool = { name: "weather", description: "The weather of a city", input_schema: {
  type: "object", properties: { city: { type: "string" } }, required: ["city"] } };
"""
MESSAGE = """
const answer = await ai.messages.create({ ...asked, messages });
console.log(answer.content[0].text);
const counted = await ai.messages.countTokens({ model: asked.model, messages });
const { input_tokens, cache_read_input_tokens } = answer.usage;
if (counted.input_tokens !== input_tokens + cache_read_input_tokens) throw new Error(JSON.stringify(answer.usage));
"""
MESSAGE_STREAM = """
const stream = ai.messages.stream({ ...asked, messages }).on("text", (text) => process.stdout.write(text));
const { stop_reason } = await stream.finalMessage();
if (!["end_turn", "max_tokens"].includes(stop_reason)) throw new Error(stop_reason);
"""
TOOLS = """
const tool_choice = { type: "tool", name: "weather" };
const stream = ai.messages.stream({ ...asked, messages, tools: [tool], tool_choice });
const [call] = (await stream.finalMessage()).content;
console.log(call.type, call.name, Object.keys(call.input).join());
"""

OLLAMA = """
import { Ollama } from "ollama";
const ai = new Ollama({ host: process.argv[2] });
const model = "smollm2-135m-instruct";
const messages = [{ role: "user", content: "Name a bird in one word." }];
const options = { num_predict: 16, temperature: 0 };
"""
OLLAMA_CHAT = """
console.log((await ai.chat({ model, messages, options })).message.content);
"""
OLLAMA_STREAM = """
const events = await ai.chat({ model, messages, options, stream: true });
for await (const one of events) process.stdout.write(one.message.content);
"""
OLLAMA_EMBED = """
console.log((await ai.embed({ model, input: ["a heron", "a stork"] })).embeddings.length);
"""
OLLAMA_MODELS = """
console.log((await ai.list()).models.map((one) => one.name).join(), (await ai.show({ model })).capabilities.join());
for await (const one of await ai.pull({ model, stream: true })) console.log(one.status);
"""


def run(package: str, script: str, tmp_path: Path, base_url: str) -> str:
    """The text that a script prints which uses a package."""
    node = shutil.which("node")
    if not node or not (Path(NODE) / package).is_dir():
        pytest.skip(f"needs node and the package {package} of npm")
    (tmp_path / "node_modules").symlink_to(NODE)
    (tmp_path / "script.mjs").write_text(script, encoding="utf-8")
    done = subprocess.run([node, "script.mjs", base_url], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.client("npm:openai", "chat")
def test_chat(tmp_path: Path, base_url: str) -> None:
    assert run("openai", OPENAI + CHAT, tmp_path, base_url).strip()


@pytest.mark.client("npm:openai", "streams")
def test_stream(tmp_path: Path, base_url: str) -> None:
    assert run("openai", OPENAI + STREAM, tmp_path, base_url).strip()


@pytest.mark.client("npm:openai", "transcription")
def test_speech_and_transcription(tmp_path: Path, base_url: str) -> None:
    assert "morning" in run("openai", OPENAI + SPEECH, tmp_path, base_url).lower()


@pytest.mark.client("npm:@anthropic-ai/sdk", "messages")
def test_anthropic_message(tmp_path: Path, address: str) -> None:
    assert run("@anthropic-ai/sdk", ANTHROPIC + MESSAGE, tmp_path, address).strip()


@pytest.mark.client("npm:@anthropic-ai/sdk", "streams")
def test_anthropic_stream(tmp_path: Path, address: str) -> None:
    assert run("@anthropic-ai/sdk", ANTHROPIC + MESSAGE_STREAM, tmp_path, address).strip()


@pytest.mark.client("npm:@anthropic-ai/sdk", "tools")
def test_anthropic_tools(tmp_path: Path, address: str) -> None:
    assert run("@anthropic-ai/sdk", ANTHROPIC + TOOLS, tmp_path, address).strip() == "tool_use weather city"


@pytest.mark.client("npm:ollama", "chat")
def test_ollama_chat(tmp_path: Path, address: str) -> None:
    assert run("ollama", OLLAMA + OLLAMA_CHAT, tmp_path, address).strip()


@pytest.mark.client("npm:ollama", "streams")
def test_ollama_stream(tmp_path: Path, address: str) -> None:
    assert run("ollama", OLLAMA + OLLAMA_STREAM, tmp_path, address).strip()


@pytest.mark.client("npm:ollama", "embeddings")
def test_ollama_embed(tmp_path: Path, address: str) -> None:
    assert run("ollama", OLLAMA + OLLAMA_EMBED, tmp_path, address).strip() == "2"


@pytest.mark.client("npm:ollama", "models")
def test_ollama_models(tmp_path: Path, address: str) -> None:
    told = run("ollama", OLLAMA + OLLAMA_MODELS, tmp_path, address)
    assert "smollm2-135m-instruct:latest" in told
    assert "completion" in told
    assert told.strip().endswith("success")
