"""Some hundred broken requests and files: the form of benchmarks/fuzz that runs with the tests.

tests/corpus holds what longer runs have found, a folder a kind.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.fuzz import files, rooms, run, talk
from benchmarks.fuzz.case import Case, End, File, Talk
from benchmarks.fuzz.client import Client
from hypothesis import HealthCheck, given
from hypothesis import strategies as some
from support.examples import examples
from support.gates import FAKES
from support.raw import alive
from support.server import Running, fake_pool, serving

from edgeserve.engines.fake.chat import FakeChat
from edgeserve.errors import EdgeserveError
from edgeserve.jobs import ALL_JOBS

CORPUS = Path(__file__).parent / "corpus"
SEED, CASES = 20, 400
WELL = {"json": 60, "multipart": 50, "routes": 60, "frames": 25}
"""Kinds that a server within the tests' own process answers, and their examples."""
DICE = some.randoms(use_true_random=False)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    fakes = FAKES | {"embedding": FakeChat}
    with serving(fake_pool(ALL_JOBS, fakes=fakes)) as running:  # the document's examples may name any engine
        yield running


@pytest.fixture(scope="module")
def makers(server: Running) -> dict[str, run.Make]:
    return run.makers(server.client.get("/openapi.json").json())


def ended(server: Running, case: Case) -> End:
    """The end of the case's last step, with the faults of all."""
    client, faults, end = Client(server.client.base_url.port or 80), [], End()
    for step in case.steps:
        assert not isinstance(step, File)
        end = client.send(step)
        faults += end.faults
    for name in client.sessions:
        server.client.delete(f"/v1/transcribe/stream/{name}")
    end.faults = faults
    return end


@pytest.mark.slow
@pytest.mark.parametrize("kind", WELL)
def test_every_request_is_answered_as_it_is_meant(server: Running, makers: dict[str, run.Make], kind: str) -> None:
    @examples(WELL[kind], derandomize=True, suppress_health_check=list(HealthCheck))
    @given(DICE)
    def try_one(dice: random.Random) -> None:
        assert ended(server, makers[kind](dice, 0)).faults == []

    try_one()
    assert alive(server)


def read(file: File, path: Path) -> str:
    """ "read", or the code of the product's error; any other error is the test's."""
    path.write_bytes(file.body)
    try:
        rooms.ROOMS[file.room](file.body, path)
    except EdgeserveError as error:
        return error.code
    return "read"


@pytest.mark.parametrize(
    ("make", "refusal"), [(files.gguf_case, "engine_failure"), (files.template_case, "invalid_request")]
)
def test_every_file_is_read_or_refused(tmp_path: Path, make: run.Make, refusal: str) -> None:
    @examples(40, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(DICE)
    def try_one(dice: random.Random) -> None:
        assert read(make(dice, 0).steps[0], tmp_path / "file") in ("read", refusal)  # type: ignore[arg-type]

    try_one()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in (CORPUS / "frames").iterdir()))
def test_frames_that_were_found(server: Running, caplog: pytest.LogCaptureFixture, name: str) -> None:
    """The name begins with the code that the server closes with."""
    data = (CORPUS / "frames" / name).read_bytes()
    end = ended(server, Case("frames", 0, name, [Talk(talk.PATH, data)]))
    assert (end.status, end.faults) == (name.partition("-")[0], [])
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("path", sorted((CORPUS / "templates").iterdir()), ids=lambda path: path.name)
def test_templates_that_were_found(tmp_path: Path, path: Path) -> None:
    assert read(File("template", path.read_bytes()), tmp_path / "file") == "invalid_request"


@pytest.mark.slow
def test_no_fault_in_some_hundred_cases(tmp_path: Path) -> None:
    seen = run.fuzz(SEED, run.plan(CASES), tmp_path)
    statuses = {kind: one.statuses for kind, one in seen.kinds.items()}
    print(statuses)
    assert [(one.case.kind, one.case.number, one.faults) for one in seen.found] == []
    assert seen.faults == []
    assert sum(statuses.values(), Counter[str]()).total() == len(run.plan(CASES))
    assert all(statuses[kind]["200"] for kind in ("json", "multipart", "routes", "sound", "pictures"))
    assert statuses["gguf"]["read"]
    assert statuses["templates"]["read"]
