"""Rights of workers: each engine's files, and what a worker that was taken over can do with the rest."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from benchmarks.mmproj import build_mmproj, picture
from support import tone_asr
from support.speech import spoken
from support.tiny_bert import HEAD, write_bert
from support.tiny_bert_onnx import write_onnx

from edgeserve.device import Device
from edgeserve.engine import Engine, ModelSpec
from edgeserve.engines.asr.onnx import OnnxSpeechToText
from edgeserve.engines.encoder.model import prepare
from edgeserve.engines.fake.engine import FakeEngine
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.tts.onnx import OnnxTextToSpeech
from edgeserve.jobs import ENCODERS, INFO, Job
from edgeserve.processes.allowed import engine_confinement
from edgeserve.system import confinement

pytestmark = pytest.mark.slow  # child processes; tests/edgeserve/hosts starts some, too

ROOT = Path(__file__).parents[3]
NOTHING: Mapping[str, object] = {}
Takeover = Callable[..., dict[str, Any]]
REFUSED = {errno.EPERM, errno.EACCES, errno.ENOSYS}

lacking = [f"{name} is {words}" for name, words in confinement.available().items() if words.startswith("off")]
needs_all_layers = pytest.mark.skipif(
    bool(lacking), reason=f"this machine cannot confine workers: {'; '.join(lacking)}"
)


def child(module: str, given: Mapping[str, object], home: Path, *descriptors: int) -> dict[str, Any]:
    """Run a module of the tests with one JSON argument; returns the JSON object that it prints."""
    environ = {**os.environ, "HOME": str(home), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    command = [sys.executable, "-m", module, json.dumps(given)]
    done = subprocess.run(
        command, cwd=home, env=environ, capture_output=True, text=True, timeout=60, pass_fds=descriptors
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def takeover(tmp_path: Path) -> Iterator[Takeover]:
    """Runs support/takeover.py beside a home with a key, a model, and a listening port."""
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id").write_text("secret")
    (tmp_path / "models").mkdir()
    model = tmp_path / "models" / "model.gguf"
    model.write_bytes(b"GGUF")
    for name in ("llm/one.state", "llm/own.state", "vision/three.state", "vision/four.state"):
        path = tmp_path / "states" / ".shared" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    given: dict[str, object] = {"home": str(tmp_path / "home"), "model": str(model), "states": str(tmp_path / "states")}
    ours, own = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as unused, ours, own:
        numbers = {"socket": unused.fileno(), "own": own.fileno()}
        given |= {"port": listener.getsockname()[1], **numbers}
        yield lambda kind, without="": child(
            "support.takeover", {**given, "kind": kind, "without": without}, tmp_path / "home", *numbers.values()
        )
        assert ours.recv(2, socket.MSG_WAITALL) == b"xx"
    assert (tmp_path / "home" / ".ssh" / "id").read_text() == "secret"
    assert model.read_bytes() == b"GGUF"


@needs_all_layers
def test_the_attempts_succeed_in_a_process_that_is_free(takeover: Takeover) -> None:
    told = takeover("free")
    assert {name for kind in ("useful", "of_an_engine", "harmless") for name, end in told[kind].items() if end} == set()


@needs_all_layers
def test_a_worker_that_was_taken_over_reads_its_model_and_writes_its_states(takeover: Takeover, tmp_path: Path) -> None:
    told = takeover("engine")
    assert {name for name, words in told["layers"].items() if not words.startswith("on")} == set()
    assert {name: end for kind in ("useful", "of_an_engine") for name, end in told[kind].items() if end} == {}
    assert (tmp_path / "states" / ".shared" / "llm" / "two.state").exists()
    assert os.listdir(tmp_path / "states" / ".shared" / "vision") == ["four.state"]
    attempts = {**told["harmless"], **told["grave"], **told["destructive"]}
    assert {name: end for name, end in attempts.items() if not refused(end)} == {}


@needs_all_layers
def test_a_decoder_that_was_taken_over_reads_not_even_a_model(takeover: Takeover) -> None:
    told = takeover("decoder")
    assert {name: end for name, end in told["useful"].items() if end} == {}
    attempts = {**told["of_an_engine"], **told["harmless"], **told["grave"], **told["destructive"]}
    assert {name: end for name, end in attempts.items() if not refused(end)} == {}


FILES = {
    *("read a file of the system", "read through its own root", "read a key", "read a file beside the code"),
    *("list the home", "list the root", "list the model's folder", "list all processes"),
    *("write into the home", "write to the key", "write beside the model", "open the model to write"),
    *("make a link", "make a pipe", "make a folder"),
    *("read a state of another model", "write a state of another model", "forge a state of another model"),
    "give away a state",
    *("read the parent's environment", "read the parent's map"),
}


@needs_all_layers
def test_without_landlock_only_files_are_open(takeover: Takeover) -> None:
    told = takeover("engine", "landlock")
    assert [name for name, words in told["layers"].items() if words.startswith("off")] == ["landlock"]
    attempts = {**told["harmless"], **told["grave"]}
    assert {name for name, end in attempts.items() if not refused(end)} == FILES


@needs_all_layers
def test_without_a_filter_files_and_ports_are_shut(takeover: Takeover) -> None:
    told = takeover("engine", "seccomp")
    assert [name for name, words in told["layers"].items() if words.startswith("off")] == ["seccomp"]
    ports = {"connect to a port", "use an open socket"}
    attempts = {name: told["harmless"][name] for name in FILES | ports} | told["destructive"]
    assert {name: end for name, end in attempts.items() if not refused(end)} == {}


def refused(end: int | str) -> bool:
    return end in REFUSED or end == "not allowed to raise maximum limit"


# Paths


def test_an_engine_gets_its_files_and_folders_and_no_gpu_where_there_is_none(tmp_path: Path) -> None:
    spec = ModelSpec("llm", "x", "x:X", {"model": tmp_path / "a.gguf"}, options={"hold": str(tmp_path / "pipes")})
    wanted = engine_confinement(FakeEngine(spec), devices=tmp_path)
    assert {tmp_path / "a.gguf", tmp_path / "pipes"} <= set(wanted.read)
    assert (wanted.write, wanted.devices, wanted.accelerator) == ((), (Path("/dev/null"),), False)


@pytest.mark.parametrize(
    ("make", "device", "allows"),
    [
        (LlamaChat, "cpu", False),
        (LlamaChat, "auto", True),
        (LlamaChat, "cuda", True),
        (OnnxTextToSpeech, "auto", False),
        (OnnxTextToSpeech, "cuda", True),
        (OnnxSpeechToText, "auto", False),
        (OnnxSpeechToText, "cuda", True),
        (FakeEngine, "auto", False),
    ],
)
def test_a_gpu_is_allowed_where_the_engine_may_use_it(
    make: Callable[[ModelSpec], Engine], device: Device, allows: bool, tmp_path: Path
) -> None:
    for name in ("nvidia0", "nvidiactl", "sda", "tty"):
        (tmp_path / name).touch()
    (tmp_path / "dri").mkdir()
    wanted = engine_confinement(make(ModelSpec("llm", "x", "x:X", {"model": tmp_path / "m"}, device)), tmp_path)
    nodes = {tmp_path / name for name in ("nvidia0", "nvidiactl", "dri")} if allows else set()
    assert set(wanted.devices) == {Path("/dev/null"), *nodes}
    assert wanted.accelerator is allows
    assert (Path("/proc/driver/nvidia") in wanted.read) is allows


def test_states_on_disk_are_written_in_their_own_folder_alone(tmp_path: Path) -> None:
    files, pool = {"model": tmp_path / "a.gguf"}, tmp_path / "b" / ".shared"
    cases: list[tuple[dict[str, object], tuple[Path, ...], tuple[Path, ...]]] = [
        ({}, (), ()),
        ({"prefix_cache_dir": str(tmp_path / "b")}, (pool / "llm",), (pool,)),
        ({"prefix_cache_disk_mb": 0, "prefix_cache_dir": str(tmp_path / "b")}, (), ()),
        ({"prefix_cache_disk_mb": 1, "prefix_cache_dir": str(tmp_path / "b")}, (tmp_path / "b" / "llm",), ()),
    ]
    for options, write, tidy in cases:
        spec = ModelSpec("llm", "x", "edgeserve.engines.llama.chat:LlamaChat", files, options=options)
        wanted = engine_confinement(LlamaChat(spec))
        assert (wanted.write, wanted.tidy) == (write, tidy)


def test_prepared_files_and_folders_that_are_searched_can_be_read(tmp_path: Path) -> None:
    files = {"model": tmp_path / "m" / "a.onnx", "vad": tmp_path / "v" / "vad.onnx"}
    whisper = OnnxSpeechToText(ModelSpec("asr", "x", "x:X", files))
    family = OnnxSpeechToText(ModelSpec("asr", "x", "x:X", files, options={"family": "gigaam-v2-ctc"}))
    voice = OnnxTextToSpeech(ModelSpec("tts", "x", "x:X", {"model": files["model"]}))
    assert set(whisper.access().read) == {tmp_path / "m" / "prepared", tmp_path / "v" / "prepared"}
    assert set(family.access().read) == {tmp_path / "m"}
    assert set(voice.access().read) == {tmp_path / "m" / "prepared"}


# Engines


@needs_all_layers
def test_the_reference_engine_works_and_no_layer_is_off(tmp_path: Path) -> None:
    told = run_engine(tmp_path, "llm", "edgeserve.engines.fake.chat:FakeChat", {}, b"one two")
    assert told == {"answers": ["one two"] * 2, "off": [], "lines": []}


@needs_all_layers
@pytest.mark.slow
def test_a_family_of_onnx_asr_finds_its_files(tmp_path: Path) -> None:
    sound = tone_asr.tones(300.0, 4000.0).tobytes()
    folder = tmp_path / "model"
    folder.mkdir()
    files, options = tone_asr.build(folder), {"family": "nemo-conformer-ctc"}
    told = run_engine(tmp_path, "asr", "edgeserve.engines.asr.onnx:OnnxSpeechToText", files, sound, options)
    assert told == {"answers": [" low high"] * 2, "off": [], "lines": []}


@needs_all_layers
@pytest.mark.parametrize(("job", "tokens"), [("embedding", 8), ("rerank", 5 + 6)])
def test_an_encoder_on_onnx_runtime_finds_its_files(tmp_path: Path, job: Job, tokens: int) -> None:
    files = write_onnx(tmp_path / "model", head=tuple(HEAD) if job == "rerank" else ())
    prepare(ModelSpec(job, job, ENCODERS[job], files), lambda done, total: None)
    told = run_engine(tmp_path, job, ENCODERS[job], files, b"the cat sleeps on the sofa")
    assert told == {"answers": [tokens] * 2, "off": [], "lines": []}


@needs_all_layers
def test_a_ranking_model_on_llama_cpp_finds_its_file(tmp_path: Path) -> None:
    files = {"model": write_bert(tmp_path / "m.gguf", None, head=tuple(HEAD))}
    told = run_engine(tmp_path, "rerank", INFO["rerank"].engine, files, b"rain\ncat")
    assert told == {"answers": [12] * 2, "off": [], "lines": []}


Pulled = Callable[[str], Mapping[str, Path]]


@needs_all_layers
@pytest.mark.models
class TestRealEngines:
    """No line of the log may warn: an engine that lacks a file often goes on without it, slower."""

    def test_chat_with_states_on_disk(self, pulled: Pulled, tmp_path: Path) -> None:
        options = {"context": 512, "prefix_cache_dir": str(tmp_path / "states")}
        files = {"model": pulled("smollm2-135m-instruct")["model"]}
        told = run_engine(tmp_path, "llm", "edgeserve.engines.llama.chat:LlamaChat", files, b"Say yes. " * 20, options)
        assert all(told.pop("answers"))
        assert told == {"off": [], "lines": []}
        assert list((tmp_path / "states" / ".shared" / "llm").glob("*.state"))

    def test_vision(self, pulled: Pulled, tmp_path: Path) -> None:
        llm = pulled("smollm2-135m-instruct")["model"]
        files = {"model": llm, "mmproj": build_mmproj(llm, tmp_path / "mmproj.gguf")}
        told = run_engine(
            tmp_path, "vision", "edgeserve.engines.llama.vision:LlamaVision", files, picture("red"), {"context": 512}
        )
        assert all(told.pop("answers"))
        assert told == {"off": [], "lines": []}

    def test_transcription(self, pulled: Pulled, tmp_path: Path) -> None:
        files = pulled("whisper-tiny.en")
        sound = spoken("The quick brown fox jumps over the lazy dog.").tobytes()
        told = run_engine(tmp_path, "asr", "edgeserve.engines.asr.onnx:OnnxSpeechToText", files, sound)
        assert all("brown fox" in text for text in told.pop("answers"))
        assert told == {"off": [], "lines": []}

    def test_speech(self, pulled: Pulled, tmp_path: Path) -> None:
        told = run_engine(
            tmp_path, "tts", "edgeserve.engines.tts.onnx:OnnxTextToSpeech", pulled("hibari"), b"The quick fox."
        )
        assert min(told.pop("answers")) > 24_000
        assert told == {"off": [], "lines": []}


def run_engine(
    home: Path, job: str, engine: str, files: Mapping[str, Path], data: bytes, options: Mapping[str, object] = NOTHING
) -> dict[str, Any]:
    (home / "input").write_bytes(data)
    paths = {role: str(path) for role, path in files.items()}
    given = {"job": job, "engine": engine, "files": paths, "options": dict(options), "input": str(home / "input")}
    return child("support.confined_engine", given, home)
