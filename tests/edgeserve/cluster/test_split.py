"""One model over several machines: workers on loopback addresses, each with a memory of its own."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from benchmarks.cluster_lender import Lender, lenders
from benchmarks.control_group import MB as MIB
from benchmarks.control_group import NotPermittedHere, group
from support.server import Running, serving, until

from edgeserve import assembly, config
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.models.folder import default_root
from edgeserve.models.store import Store
from edgeserve.system.probe import Probe
from edgeserve.units import MB

Pulled = Callable[[str], Mapping[str, Path]]

pytestmark = [
    pytest.mark.models,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.boxes("llama.cpp's RPC"),
]
MODEL = "smollm2-135m-instruct"
LAYERS = 30
QUESTION = {
    "model": "split",
    "messages": [{"role": "user", "content": "Name three rivers of Europe, and say where each begins."}],
    "temperature": 0,
    "max_tokens": 48,
}


@contextlib.contextmanager
def served(folder: Path, nodes: list[str], override_mb: int = 0, threads: int = 1) -> Iterator[Running]:
    settings = folder / "models.toml"
    named = f"nodes = {nodes!r}\n" if nodes else ""
    # Reordered weights and guessed tokens round otherwise.
    fixed = f'repack = "off"\nspeculation = "off"\nthreads = {threads}'
    settings.write_text(f'[models.split]\nmodel = "{MODEL}"\ncontext = 512\n{fixed}\n{named}')
    environ = {"EDGESERVE_OVERRIDE_MEMORY_MB": str(override_mb)} if override_mb else {}
    read = config.load(environ, path=settings)
    models = folder / "models"  # what is learned of memory stays beside it
    models.symlink_to(default_root(os.environ))
    with serving(assembly.build_pool(read, Store(models))) as running:
        yield running


def total_with_room(room_mb: int) -> int:
    """MB of a machine where an engine may take so many, beside this process and the default reserve of a quarter.

    What this process takes more by then, for its server, comes off: 30 MB, or 60 behind all tests of the folder.
    """
    usable = (Probe().read_quick().process.own / MB + room_mb) / (MemoryPolicy().critical_percent / 100)
    return int(usable / 0.75) + 1


def ask(running: Running, **more: str) -> httpx.Response:
    return running.client.post("/v1/chat/completions", json={**QUESTION, **more}, timeout=120)


def text_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


def private_mb(others: list[Lender]) -> float:
    """Memory of all workers and their processes, in MB."""
    above = [psutil.Process(one.process.pid) for one in others]
    processes = [*above, *(child for one in above for child in one.children(recursive=True))]
    return sum(float(one.memory_full_info().uss) for one in processes) / MB


def parts(running: Running) -> list[dict[str, Any]]:
    return list(running.client.get("/memory/stats").json()["nodes"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, pulled: Pulled) -> str:
    """The answer of the model on this machine alone."""
    pulled(MODEL)
    with served(tmp_path_factory.mktemp("alone"), []) as running:
        return text_of(ask(running))


def test_a_model_over_three_machines_answers_as_it_does_alone(tmp_path: Path, alone: str) -> None:
    with lenders(300, 300) as others, served(tmp_path, [one.node for one in others]) as running:
        idle = private_mb(others)
        assert text_of(ask(running)) == alone
        held = parts(running)
        assert [one["node"] for one in held] == [one.node for one in others]
        assert 2 <= sum(one["layers"] for one in held) < LAYERS
        assert all(one["memory_mb"] > 0 for one in held)
        assert private_mb(others) > idle + 20
        unloaded = running.client.post("/admin/unload", json={"model": "split"})
        assert unloaded.status_code == 200, unloaded.text
        assert parts(running) == []
        until(lambda: private_mb(others) < idle + 5)  # as the systems of the workers tell
        assert text_of(ask(running)) == alone  # a released worker takes the next load


@pytest.mark.parametrize("threads", [1, 2])
def test_a_split_gives_the_same_text_with_any_number_of_threads(tmp_path: Path, alone: str, threads: int) -> None:
    """Each prompt is computed whole: the beginning of one that is cached would be computed in other shapes.

    From 512 tokens in the context on, which these answers do not reach, threads would share the attention of a token.
    """
    with lenders(300, 300) as others, served(tmp_path, [one.node for one in others], threads=threads) as running:
        texts = [text_of(ask(running, prompt_cache_key=f"of its own {number}")) for number in range(2)]
        assert texts == [alone] * 2


def test_a_model_that_no_machine_holds_alone(tmp_path: Path, alone: str) -> None:
    """The weights take 101 MB: neither the server's machine nor a worker has room for them."""
    total = total_with_room(160)
    with lenders(90, 90) as others, served(tmp_path, [one.node for one in others], override_mb=total) as running:
        assert text_of(ask(running)) == alone
        assert all(one["memory_mb"] <= 90 for one in parts(running))


def test_a_node_in_a_control_group_lends_what_the_group_has(tmp_path: Path, alone: str) -> None:
    with contextlib.ExitStack() as stack:
        try:
            inside = stack.enter_context(group("edgeserve-worker"))
            inside.limit(400 * MIB)
        except NotPermittedHere as reason:
            pytest.skip(f"no control group: {reason}")
        worker = Lender(None, inside.launcher)
        stack.callback(worker.end)
        running = stack.enter_context(served(tmp_path, [worker.node], override_mb=total_with_room(160)))
        assert text_of(ask(running)) == alone
        (part,) = parts(running)
        assert 0 < part["memory_mb"] < 400
        assert inside.kills() == 0


def test_a_node_that_is_too_small_is_named_with_the_sizes(tmp_path: Path, alone: str) -> None:
    with lenders(64) as others, served(tmp_path, [others[0].node], override_mb=total_with_room(75)) as running:
        answer = ask(running)
        assert answer.status_code == 507
        assert "MB free, and its" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("route", "more"),
    [
        ("/v1/chat/completions", {"max_tokens": 400}),
        ("/api/chat", {"options": {"temperature": 0, "num_predict": 400}}),
        ("/v1/messages", {"max_tokens": 400}),
    ],
)
def test_an_answer_under_way_ends_with_the_name_of_the_node_in_each_dialect(
    tmp_path: Path, alone: str, route: str, more: dict[str, Any]
) -> None:
    with lenders(300) as others, served(tmp_path, [others[0].node]) as running:
        body = {"model": "split", "messages": QUESTION["messages"], "stream": True, **more}
        with running.client.stream("POST", route, json=body, timeout=120) as answer:
            assert answer.status_code == 200
            lines = answer.iter_lines()
            begun = [next(lines) for _ in range(8)]
            others[0].end()
            end = [line for line in lines if line]
        assert not any("lost" in line for line in begun)
        assert any("error" in line and f"split has lost {others[0].node}" in line for line in end[-3:]), end[-3:]
        until(lambda: parts(running) == [])


def test_a_killed_node_ends_its_answers_and_the_next_request_tries_again(tmp_path: Path, alone: str) -> None:
    with lenders(300) as others, served(tmp_path, [others[0].node]) as running:
        assert text_of(ask(running)) == alone
        others[0].end()
        lost = ask(running)
        assert lost.status_code == 500
        assert others[0].node in lost.json()["error"]["message"]
        again = ask(running)
        assert again.status_code == 500
        assert "cannot be reached" in again.json()["error"]["message"]
        assert running.client.get("/health").status_code == 200
        until(lambda: not others[0].answers)


def test_a_node_that_hangs_ends_its_answers_and_serves_again_when_it_goes_on(tmp_path: Path, alone: str) -> None:
    """Its system confirms all that arrives: no time limit of TCP would notice."""
    with lenders(300) as others, served(tmp_path, [others[0].node]) as running:
        body = {"model": "split", "messages": QUESTION["messages"], "stream": True, "max_tokens": 400}
        with running.client.stream("POST", "/v1/chat/completions", json=body, timeout=120) as answer:
            lines = answer.iter_lines()
            assert all("error" not in next(lines) for _ in range(8))
            others[0].hang()
            try:
                end = [line for line in lines if line]
                lost = f"split has lost {others[0].node} with "
                told = "\n".join(end[-3:])
                assert [one for one in ("error", lost, "no sign of life") if one not in told] == [], told
                until(lambda: parts(running) == [])
                again = ask(running)
                assert again.status_code == 500
                assert "does not answer within 3 s" in again.json()["error"]["message"]
            finally:
                others[0].hang(signal.SIGCONT)
        assert text_of(ask(running)) == alone
