"""Encoders for ONNX Runtime in folders and on hubs, and the engine of each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.cases import each
from support.tiny_bert_onnx import write_onnx

from edgeserve.errors import StoreError
from edgeserve.jobs import ENCODERS
from edgeserve.models import encoders, wanted
from edgeserve.models.sources import hub
from edgeserve.models.sources.source import HubSource
from edgeserve.models.store import Store

SMALL = {"tokenizer": "tokenizer.json", "config": "config.json"}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ({"onnx/model.onnx", "onnx/model_quantized.onnx"}, {"model": "onnx/model.onnx"}),
        ({"onnx/model_quantized.onnx", "vocab.txt"}, {"model": "onnx/model_quantized.onnx"}),
        ({"model.onnx", "model.onnx_data"}, {"model": "model.onnx", "data": "model.onnx_data"}),
        ({"model.onnx", "1_Pooling/config.json"}, {"model": "model.onnx", "pooling": "1_Pooling/config.json"}),
    ],
)
def test_the_files_of_an_encoder(names: set[str], found: dict[str, str]) -> None:
    assert encoders.files({*names, *SMALL.values()}) == found | SMALL
    assert encoders.files(names) == {}


@pytest.mark.parametrize(
    ("architectures", "job"),
    [(["BertModel"], "embedding"), (["XLMRobertaForSequenceClassification"], "rerank"), ([], "embedding")],
)
def test_the_job_of_an_encoder(architectures: list[str], job: str) -> None:
    assert encoders.job_of(json.dumps({"architectures": architectures}).encode(), "here") == job


@each("config", [b"", b"{}", b"[]", b'{"architectures": 5}', b"\xff", b"[" * 100_000])
def test_a_config_that_names_no_architecture(config: bytes) -> None:
    with pytest.raises(StoreError, match=r"config\.json of here names no architecture"):
        encoders.job_of(config, "here")


@pytest.mark.parametrize(("head", "job"), [((), "embedding"), (("cls.output.weight",), "rerank")])
def test_a_folder_is_served_in_place(tmp_path: Path, head: tuple[str, ...], job: str) -> None:
    files = write_onnx(tmp_path / "My-Model", head=head)
    stored = Store(tmp_path / "store").find(str(tmp_path / "My-Model"))
    assert (stored.name, stored.job, stored.engine) == ("my-model", job, ENCODERS[job])  # type: ignore[index]
    assert stored.files == files


def test_a_folder_as_sentence_transformers_writes_it(tmp_path: Path) -> None:
    files = write_onnx(tmp_path, pooling="pooling_mode_cls_token")
    for folder, role in (("onnx", "model"), ("1_Pooling", "pooling")):
        (tmp_path / folder).mkdir()
        name = "model.onnx" if role == "model" else "config.json"
        files[role] = files[role].rename(tmp_path / folder / name)
    found = wanted.understand(str(tmp_path))
    assert found.here == files


def test_a_repository_of_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    there = ["README.md", "onnx/model.onnx", "1_Pooling/config.json", *SMALL.values()]
    monkeypatch.setattr(hub, "list_files", lambda repository, revision: there)
    monkeypatch.setattr(hub, "read", lambda source, member: b'{"architectures": ["BertForSequenceClassification"]}')
    found = wanted.understand("hub:org/Cross-Encoder@v3")
    assert (found.name, found.job, found.engine) == ("cross-encoder", "rerank", ENCODERS["rerank"])
    members = {"model": "onnx/model.onnx", "pooling": "1_Pooling/config.json", **SMALL}
    assert found.sources == (HubSource("org/Cross-Encoder", members, "v3"),)
    assert wanted.understand("hub:org/Cross-Encoder@v3", offline=True).name == "cross-encoder"


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that the hub's library serves as any repository."""
    import huggingface_hub

    folder = tmp_path / "repository"

    def download(repository: str, member: str, *, local_dir: Path, **_: object) -> str:
        into = Path(local_dir) / member
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / member, into)
        return str(into)

    names = lambda repository, revision: [str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()]  # noqa: E731
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda address: SimpleNamespace(size=600))
    monkeypatch.setattr(hub, "list_files", names)
    files = write_onnx(folder, head=("cls.output.weight",), pooling="pooling_mode_cls_token")
    (folder / "1_Pooling").mkdir()
    files["pooling"].rename(folder / "1_Pooling" / "config.json")
    return folder


def test_a_repository_is_pulled_and_prepared(repository: Path, tmp_path: Path) -> None:
    stored = Store(tmp_path / "store").pull("hub:org/Cross-Encoder")
    assert (stored.job, stored.engine) == ("rerank", ENCODERS["rerank"])
    assert {role: path.name for role, path in stored.files.items()} == {
        "model": "model.onnx",
        "tokenizer": "tokenizer.json",
        "config": "config.json",
        "pooling": "pooling-config.json",
    }
    assert stored.files["config"].read_bytes() == (repository / "config.json").read_bytes()
    assert (stored.files["model"].parent / "prepared").is_dir()
    found = Store(tmp_path / "store").find("hub:org/Cross-Encoder")
    assert (found.name, found.engine) == (stored.name, stored.engine)
