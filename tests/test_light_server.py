"""The serving process imports no runtime, no array library and no decoder, and at rest only what rest needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import bombs
from support.sounds import FORMS, encoded, melody

ROOT = Path(__file__).parent.parent
HEAVY = {"numpy", "av", "onnxruntime", "onnx", "onnx_asr", "llama_cpp", "mlx", "hibari", "PIL"}
UNUSED = {"click", "multiprocessing", "pickle", "html.entities", "logging.handlers", "socketserver", "difflib"}
"""Modules of libraries that a server at rest has no use for."""
LATER = {
    "edgeserve.api.json_body",
    "edgeserve.api.line",
    "edgeserve.api.models",
    "edgeserve.api.openapi",
    "edgeserve.api.pictures.image",
    "edgeserve.api.schema",
    "edgeserve.api.tools",
    "edgeserve.audio.decode",
    "edgeserve.audio.apart",
    "edgeserve.audio.child",
    "edgeserve.commands.top",
    "edgeserve.doctor",
    "edgeserve.fit.recommend",
    "edgeserve.fit.tuning",
    "edgeserve.hosts.guest",
    "edgeserve.live.session",
    "edgeserve.media.children",
    "edgeserve.models.convert.whisper",
    "edgeserve.models.convert.whisper_mlx",
    "edgeserve.models.pulls",
    "edgeserve.models.sources.hub",
    "edgeserve.models.sources.url",
    "edgeserve.protocols.websocket",
}
"""Modules of the server that a request, a pull or another command needs first."""
OF_DIALECTS = {"entries", "failure", "headers", "ndjson", "public"}
"""Files of such a folder that a server at rest knows: the table of its routes, its errors, what needs no key."""
AT_REST = """
import json, os, signal, sys
from edgeserve import cli
from edgeserve.commands import serve
def greeting(config, address, *more):
    os.kill(os.getpid(), signal.SIGTERM)
    yield json.dumps(sorted(sys.modules))
serve.greeting = greeting
sys.exit(cli.main(["serve", "--config", sys.argv[1], "--port", "0"]))
"""

SERVED = """
import base64, json, struct, sys
sys.path[:0] = [".", "tests"]
from support.server import fake_pool, serving
from edgeserve.jobs import JOBS
wav, mp3, png = [open(path, "rb").read() for path in sys.argv[1:]]
with serving(fake_pool(JOBS), isolation="process") as running:
    def post(path, **sent):
        answer = running.client.post(path, **sent)
        assert answer.status_code == 200, (path, answer.text)
        return answer
    says = lambda content: [{"role": "user", "content": content}]
    post("/v1/chat/completions", json={"model": "llm", "messages": says("hello")})
    url = {"url": "data:image/png;base64," + base64.b64encode(png).decode()}
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": url}]
    post("/v1/chat/completions", json={"model": "vision", "messages": says(parts)})
    post("/v1/embeddings", json={"input": "hello"})
    for file in (wav, mp3):
        post("/v1/audio/transcriptions", files={"file": ("said", file)}, data={"model": "asr"})
        post("/v1/transcribe/file", files={"audio": ("said", file)})
    for form in ("mp3", "opus", "aac", "flac", "wav", "pcm"):
        post("/v1/audio/speech", json={"model": "tts", "input": "good morning", "response_format": form})
    post("/v1/tts/synthesize", json={"text": "good morning"})
    session = post("/v1/transcribe/stream").json()["session"]
    samples = struct.pack("<48000f", *([0.5, -0.5] * 24000))
    assert post("/v1/transcribe/push", content=samples, headers={"X-Session-Id": session}).json()["session"]
    assert post("/v1/transcribe/flush", params={"session": session}).json()["text"]
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.slow
def test_every_job_is_served_without_a_heavy_module(tmp_path: Path) -> None:
    files = {"said.wav": encoded(melody(2, 44_100), FORMS["wav"]), "said.mp3": encoded(melody(2, 44_100), FORMS["mp3"])}
    files["seen.png"] = bombs.deep_png(8, 8)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-c", SERVED, *(str(tmp_path / name) for name in files)]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert shown.returncode == 0, shown.stderr
    assert HEAVY & set(json.loads(shown.stdout)) == set()


@pytest.mark.slow
def test_a_server_at_rest_has_imported_only_what_it_needs(tmp_path: Path) -> None:
    settings = tmp_path / "models.toml"
    settings.write_text("")
    command = [sys.executable, "-c", AT_REST, str(settings)]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert shown.returncode == 0, shown.stderr
    loaded = set(json.loads(shown.stdout))
    assert "edgeserve.server" in loaded
    assert (HEAVY | UNUSED | LATER) & loaded == set()
    in_folders = {name for name in loaded if name.startswith("edgeserve.api.") and name.count(".") == 3}
    assert {name for name in in_folders if name.rpartition(".")[2] not in OF_DIALECTS} == set()
