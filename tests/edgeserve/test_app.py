"""From settings and stored models to engines: the engine of each model, and refused combinations."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from edgeserve import app, assembly, named, specification
from edgeserve.api import models
from edgeserve.config import Config, ServerSettings, load
from edgeserve.device import AllocatorMemory
from edgeserve.engine import Adapter
from edgeserve.engines.asr.mlx_memory import MlxAllocator
from edgeserve.engines.llama import devices
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.embedding import LlamaEmbedding
from edgeserve.engines.llama.vision import LlamaVision
from edgeserve.errors import ConfigError, ModelMissing
from edgeserve.fit import tuned
from edgeserve.jobs import ALL_JOBS, INFO
from edgeserve.jobs import CHAT as ALL_CHAT
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.model_settings import AdapterSettings, ModelSettings
from edgeserve.models.store import Store, StoredModel
from edgeserve.units import MB


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return path


def config(**engines: ModelSettings) -> Config:
    return Config(models=engines, source="models.toml")  # type: ignore[arg-type]


def test_a_local_file_is_served_in_place(gguf: Path, tmp_path: Path) -> None:
    settings = ModelSettings(job="llm", model=str(gguf), threads=2, options={"context": 128})
    (spec,) = specification.specs(config(llm=settings), Store(tmp_path / "models"))
    assert (spec.name, spec.files["model"], spec.threads) == ("tiny", gguf, 2)
    assert isinstance(named.make_engine(spec), LlamaChat)


def test_a_model_with_nodes_has_the_engine_for_several_machines(gguf: Path, tmp_path: Path) -> None:
    settings = ModelSettings(job="llm", model=str(gguf), options={"nodes": ("box2",)})
    (spec,) = specification.specs(config(llm=settings), Store(tmp_path / "models"))
    assert spec.engine == INFO["llm"].split


def test_the_same_file_serves_vision_with_a_projector(gguf: Path, tmp_path: Path) -> None:
    settings = ModelSettings(job="vision", model=str(gguf), mmproj=str(gguf))
    (spec,) = specification.specs(config(vision=settings), Store(tmp_path / "models"))
    assert spec.files["mmproj"] == gguf
    assert isinstance(named.make_engine(spec), LlamaVision)


def test_adapters_are_files_of_their_model(gguf: Path, tmp_path: Path) -> None:
    adapters = (AdapterSettings(str(gguf), 0.5, "style"), AdapterSettings(str(gguf)))
    settings = ModelSettings(job="llm", model=str(gguf), adapters=adapters)
    (spec,) = specification.specs(config(llm=settings), Store(tmp_path / "models"))
    assert spec.adapters == (Adapter("adapter0", 0.5, "style"), Adapter("adapter1"))
    record = tmp_path / "tuned" / "tiny.json"
    assert spec.files == {"model": gguf, "adapter0": gguf, "adapter1": gguf, "tuned": record}


def test_a_draft_is_a_file_of_its_model(gguf: Path, tmp_path: Path) -> None:
    settings = ModelSettings(job="llm", model=str(gguf), draft=str(gguf))
    (spec,) = specification.specs(config(llm=settings), Store(tmp_path / "models"))
    assert spec.files["draft"] == gguf


def test_a_draft_of_another_job_is_refused(gguf: Path, models: dict[str, str]) -> None:
    settings = ModelSettings(job="llm", model=str(gguf), draft="hibari")
    with pytest.raises(ConfigError, match=r"draft = 'hibari' is made for tts; expected a GGUF chat model"):
        list(specification.specs(config(llm=settings), Store(Path(models["EDGESERVE_MODELS_DIR"]))))


def test_measured_settings_fill_in_for_those_that_nobody_wrote(gguf: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "models")
    best = {"repack": "on", "threads": 3}
    tuned.keep(tuned.path_of(store.root, "tiny"), tuned.record(4, best, (tuned.Form(best, 0.1, 100.0, 10.0),), 0.0))
    (spec,) = specification.specs(config(llm=ModelSettings(job="llm", model=str(gguf))), store)
    assert (spec.threads, spec.options["tuned"]) == (3, best)
    mine = ModelSettings(job="llm", model=str(gguf), threads=2, options={"repack": "off"})
    (spec,) = specification.specs(config(llm=mine), store)
    engine = named.make_engine(spec)
    assert isinstance(engine, LlamaChat)
    assert (spec.threads, engine.options.reordered) == (2, False)
    gguf.write_bytes(b"GGUF of another size")
    (spec,) = specification.specs(config(llm=ModelSettings(job="llm", model=str(gguf))), store)
    assert (spec.threads, spec.options.get("tuned")) == (None, None)


def test_the_same_file_makes_vectors(gguf: Path, tmp_path: Path) -> None:
    (spec,) = specification.specs(
        config(embedding=ModelSettings(job="embedding", model=str(gguf))), Store(tmp_path / "models")
    )
    engine = named.make_engine(spec)
    assert isinstance(engine, LlamaEmbedding)
    assert engine.options.pooled
    with pytest.raises(ConfigError, match="pooled is not a known setting"):
        named.make_engine(dataclasses.replace(spec, options={"pooled": False}))


def test_the_cap_of_the_memory_policy_reaches_the_engine(gguf: Path, tmp_path: Path) -> None:
    settings = dataclasses.replace(
        config(llm=ModelSettings(job="llm", model=str(gguf))), memory=MemoryPolicy(max_new_tokens=77)
    )
    pool = assembly.build_pool(settings, Store(tmp_path / "models"))
    assert pool.configured["llm"].options["max_new_tokens"] == 77


def test_the_governor_reads_the_accelerators_of_llama(gguf: Path, tmp_path: Path) -> None:
    pool = assembly.build_pool(config(llm=ModelSettings(job="llm", model=str(gguf))), Store(tmp_path / "models"))
    assert pool.governor.probe.accelerator._devices is devices.devices  # type: ignore[attr-defined]


def test_the_governor_reads_what_mlx_holds(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = assembly.build_pool(config(llm=ModelSettings(job="llm", model=str(gguf))), Store(tmp_path / "models"))
    told = AllocatorMemory(active=3 << 20, cached=2 << 20, peak=4 << 20)
    monkeypatch.setattr(MlxAllocator, "read", lambda self: told)
    mlx = pool.governor.stats()["mlx"]
    assert isinstance(mlx, dict)
    assert (mlx["active_mb"], mlx["cache_mb"], mlx["peak_mb"]) == (3.0, 2.0, 4.0)


def test_chains_reach_the_pool(gguf: Path, tmp_path: Path) -> None:
    engines = {job: ModelSettings(job=job, model=str(gguf), mmproj=str(gguf)) for job in ("llm", "vision")}
    engines["vision"] = dataclasses.replace(engines["vision"], when=("chat",))
    pool = assembly.build_pool(config(**engines), Store(tmp_path / "models"))
    assert {kind: list(jobs) for kind, jobs in pool.ahead.chains.items() if jobs} == {"chat": ["vision"]}


CHAT, SPEECH = "edgeserve.engines.llama.chat:LlamaChat", "edgeserve.engines.tts.onnx:OnnxTextToSpeech"


def put(store: Store, name: str, job: str = "llm", engine: str = CHAT, **options: object) -> None:
    """A pulled model of one file."""
    folder = store.root / name
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(b"GGUF")
    file = {"name": "model.bin", "size": 4, "sha256": "0" * 64}
    told = {"job": job, "engine": engine, "licence": "", "source": "", "options": options, "files": {"model": file}}
    (folder / "manifest.json").write_text(json.dumps(told))


def test_a_stored_model_serves_those_who_name_it_and_nobody_else(gguf: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "models")
    put(store, "shelved")
    put(store, "voice", "tts", SPEECH)
    settings = {"vision": ModelSettings(job="vision", model=str(gguf), mmproj=str(gguf))}
    stored = dataclasses.replace(config(**settings), server=ServerSettings(serve="stored"))
    pool = assembly.build_pool(stored, store)
    assert [models.choose(pool, name, jobs) for name, jobs in (("", ALL_CHAT), ("", ("tts",)))] == ["vision", "tts"]
    assert models.choose(pool, "shelved", ALL_CHAT) == "shelved"
    assert models.choose(pool, "Voice", ("tts",)) == "voice"
    assert [models.choose(pool, name, jobs) for name, jobs in (("", ALL_CHAT), ("", ("tts",)))] == ["vision", "tts"]
    assert list(pool.gates) == ["vision", "shelved", "voice"]


def test_no_engine_is_imported_while_requests_wait(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr(assembly, "find", lambda name: (imported.append(name), named.find(name))[1])
    settings = config(llm=ModelSettings(job="llm", model=str(gguf)))
    assembly.build_pool(settings, Store(tmp_path / "models"))
    assert SPEECH not in imported
    stored = dataclasses.replace(settings, server=ServerSettings(serve="stored"))
    assembly.build_pool(stored, Store(tmp_path / "models"))
    assert {one.engine for one in INFO.values()} <= set(imported)


def test_stored_models_that_cannot_be_served_are_not_there(
    gguf: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path / "models")
    put(store, "eyes", "vision", "edgeserve.engines.llama.vision:LlamaVision")
    put(store, "strange", family="piper")
    put(store, "tts")
    (tmp_path / "models.toml").write_text(f'[server]\nserve = "stored"\n[llm]\nmodel = "{gguf}"\n')
    pool = assembly.build_pool(load({}, path=tmp_path / "models.toml"), store)
    assert [pool.find(name, ALL_JOBS) for name in ("eyes", "strange", "tts")] == [None] * 3
    assert "eyes cannot be served on demand: [models.eyes] model = 'eyes' needs its projector" in caplog.text
    assert "family is not a known setting" in caplog.text


@pytest.mark.parametrize(
    ("job", "settings", "told"),
    [
        ("vision", {"model": "GGUF"}, r"^\[vision\] model = '.*tiny.gguf' needs its projector"),
        ("vision", {"model": "GGUF", "mmproj": "/nowhere"}, r"^\[vision\] mmproj = '/nowhere': no such file"),
        ("tts", {"model": "GGUF"}, r"^\[tts\] model = '.*tiny.gguf' is made for llm, not tts"),
        ("llm", {"model": "GGUF", "options": {"contxt": 1}}, "contxt is not a known setting"),
    ],
)
def test_settings_that_contradict_are_refused(
    gguf: Path, tmp_path: Path, job: str, settings: dict[str, object], told: str
) -> None:
    engine = ModelSettings(**{**settings, "job": job, "model": str(gguf)})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=told):
        assembly.build_pool(config(**{job: engine}), Store(tmp_path / "models"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[vision]\n\nmodel = "tiny.gguf"\n',
            r"^models\.toml, line 3: \[vision\] model = 'tiny\.gguf' needs its",
        ),
        (
            '[vision]\nmodel = "tiny.gguf"\nmmproj = "~nobody-here/p.gguf"\n',
            r"^models\.toml, line 3: \[vision\] mmproj = '~nobody-here/p\.gguf': this home folder is unknown",
        ),
        (
            '[vision]\nmodel = "tiny.gguf"\nmmproj = "none"\n',
            r"^models\.toml, line 3: \[vision\] mmproj = 'none': no su",
        ),
        (
            '[llm]\nmodel = "tiny.gguf"\nadapters = [{path = "tiny.gguf"}, {path = "none"}]\n',
            r"^models\.toml, line 3: \[llm\] adapters: path = 'none': no such file",
        ),
        (
            '[tts]\nmodel = "tiny.gguf"\n',
            r"^models\.toml, line 2: \[tts\] model = 'tiny\.gguf' is made for llm, not tts",
        ),
    ],
)
def test_settings_that_contradict_name_their_line(
    gguf: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.chdir(gguf.parent)
    Path("models.toml").write_text(text)
    with pytest.raises(ConfigError, match=told):
        assembly.build_pool(load({}), Store(gguf.parent / "models"))


def test_the_options_of_a_chat_model_that_vectors_have_not_are_left_out(tmp_path: Path) -> None:
    stored = StoredModel("chat", "llm", "engine", {}, 1, options={"temperature": 0.0, "context": 99})
    store = Store(tmp_path / "models")
    store.find = lambda name: stored  # type: ignore[method-assign]
    (spec,) = specification.specs(config(embedding=ModelSettings(job="embedding", model="smollm2")), store)
    assert spec.options == {"context": 99}
    (spec,) = specification.specs(config(llm=ModelSettings(job="llm", model="smollm2")), store)
    assert spec.options == {**stored.options, "prefix_cache_dir": str(tmp_path / "states")}


def states_of(settings: Config, tmp_path: Path) -> list[object]:
    return [spec.options.get("prefix_cache_dir") for spec in specification.specs(settings, Store(tmp_path / "models"))]


def test_conversations_have_one_folder_for_all_models(gguf: Path, tmp_path: Path) -> None:
    chat = ModelSettings("llm", str(gguf))
    named = ModelSettings("llm", str(gguf), options={"prefix_cache_dir": "/elsewhere"})
    emptied = ModelSettings("llm", str(gguf), options={"prefix_cache_dir": ""})
    vectors = ModelSettings("embedding", str(gguf))
    settings = Config(models={"llm": chat, "named": named, "emptied": emptied, "embedding": vectors})
    beside = str(tmp_path / "states")
    assert states_of(settings, tmp_path) == [beside, "/elsewhere", beside, None]
    server = dataclasses.replace(settings.server, states_dir="~/kept")
    assert states_of(dataclasses.replace(settings, server=server), tmp_path)[0] == str(Path("~/kept").expanduser())


def test_a_model_that_is_not_there_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"edgeserve pull qwen3-0\.6b"):
        list(specification.specs(config(llm=ModelSettings(job="llm", model="qwen3-0.6b")), Store(tmp_path / "models")))


def test_a_mistake_that_only_the_engine_sees_names_its_line(gguf: Path, tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text(f'[asr]\nmodel = "x"\n[llm]\nmodel = "{gguf}"\nkv_type = "q8_0"\nflash_attention = "off"\n')
    settings = load({}, path=path)
    settings = dataclasses.replace(settings, models={"llm": settings.models["llm"]})
    with pytest.raises(ConfigError, match=r"models\.toml, line 5: \[llm\] kv_type = .*needs flash attention"):
        assembly.build_pool(settings, Store(tmp_path / "models"))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('allowed_hosts = ["box.lan:8080"]', "line 3: .* 'box.lan:8080': expected the name of a"),
        ('cors_origins = ["https://a.example/"]', "line 3: .* 'https://a.example/': expected scheme and host"),
        ('peers = ["box1", "box 2"]', r"line 3: \[server\] peers: 'box 2' is no address of a node"),
    ],
)
def test_an_invalid_host_or_origin_names_its_line(tmp_path: Path, written: str, expected: str) -> None:
    path = tmp_path / "models.toml"
    path.write_text(f"[server]\nport = 0\n{written}\n")
    settings = load({}, path=path)
    with pytest.raises(ConfigError, match=rf"models\.toml, {expected}"):
        app.build(settings, assembly.build_pool(settings, Store(tmp_path / "models")))


def test_hosts_of_later_models_are_made_by_the_later_settings(gguf: Path, tmp_path: Path) -> None:
    pool, maker = assembly.assemble(config(), Store(tmp_path / "models"))
    assert dict(pool.gates) == {}
    later = config(llm=ModelSettings(job="llm", model=str(gguf), keep_alive="5m"), mine=ModelSettings(model="gone"))
    ((model, (host, terms)),) = maker.hosts(later, ["llm"]).items()
    assert (model, host.spec.files["model"], terms.keep_alive) == ("llm", gguf, 300.0)
    with pytest.raises(ModelMissing, match="gone"):
        maker.hosts(later, ["llm", "mine"])
    with pytest.raises(ModelMissing, match="stored is not on this device any more"):
        maker.hosts(later, ["stored"])


def test_the_fork_server_imports_the_engines_that_came_later(tmp_path: Path) -> None:
    onnx = tmp_path / "voice.onnx"
    onnx.write_bytes(b"onnx")
    _, maker = assembly.assemble(config(), Store(tmp_path / "models"))
    settings = ModelSettings(job="tts", model=str(onnx), isolation="process")
    maker.hosts(config(tts=settings), ["tts"])
    assert maker.modules == {"edgeserve.engines.tts.onnx"}


def test_unread_answers_take_less_of_a_small_machine(tmp_path: Path) -> None:
    small = Config(memory=MemoryPolicy(override_memory_mb=256), source="models.toml")
    assert assembly.build_pool(small, Store(tmp_path / "models")).deliveries.limit == 32 << 20


@pytest.mark.parametrize(
    ("megabytes", "machine", "warned"), [(0, 440, False), (13, 440, False), (64, 440, True), (64, 4096, False)]
)
def test_bodies_that_may_take_the_memory_of_requests_are_warned_of(
    megabytes: int, machine: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Four bodies of 64 MB kept all other requests of a box of 440 MB out, up to 503."""
    limits = app._limits(dataclasses.replace(ServerSettings(), max_body_mb=megabytes), machine * MB)
    assert limits.max_body_bytes == (megabytes or 13) * MB
    told = "max_body_mb = 64: four bodies may take 256 of 440 MB, and keep others from their memory; 0 gives 13 MB"
    assert caplog.messages == ([told] if warned else [])
