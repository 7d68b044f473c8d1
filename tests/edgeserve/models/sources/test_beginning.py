"""The first bytes of a file show whether it is a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.examples import examples

from edgeserve.errors import SourceUnavailable
from edgeserve.models.sources import beginning

PAGES = [
    b"<!DOCTYPE html><html>",
    b"<!doctype HTML>",
    b"\n\n  <html lang=en>",
    b"\xef\xbb\xbf<!DOCTYPE html>",
    b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
    b"<HEAD><title>404</title>",
    b"version https://git-lfs.github.com/spec/v1\noid sha256:00",
]


@each("page", PAGES)
@each("name", ["m.gguf", "m.onnx", "config.json", "model.bin", "weights.npz", "w.safetensors", "v.txt"])
def test_a_page_is_no_file_of_a_model(name: str, page: bytes) -> None:
    assert beginning.objection(name, page)
    assert beginning.objection(name, b"") == "is empty"


@each(
    ("name", "first"),
    [
        ("m.gguf", b"GGUF\x03\0\0\0"),
        ("M.GGUF", b"GGUF\x03\0\0\0"),
        ("m.onnx", b"\x08\x08\x12\x07pytorch"),
        ("weights.npz", b"PK\x03\x04\x14"),
        ("model.bin", b"\x06\0\0\0"),
        ("config.json", b'{"a": "<html>"}'),
        ("vocab.txt", b"<unk>\n<s>\n"),
    ],
)
def test_files_of_models_begin_so(name: str, first: bytes) -> None:
    assert beginning.objection(name, first) == ""


@examples(200)
@given(first=st.binary(min_size=1, max_size=64).filter(lambda first: not first.startswith(b"GGUF")))
def test_nothing_else_is_a_gguf_file(first: bytes) -> None:
    assert beginning.objection("m.gguf", first)


def test_the_first_wrong_file_is_named(tmp_path: Path) -> None:
    good, page = tmp_path / "m.gguf", tmp_path / "config.json"
    good.write_bytes(b"GGUF")
    page.write_bytes(b"<html>")
    with pytest.raises(SourceUnavailable, match=r"config\.json of somewhere is a web page"):
        beginning.look([good, page], "somewhere")
