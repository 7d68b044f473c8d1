"""Well-behaved clients beside attackers: gaps, errors, memory.

    python -m benchmarks.hostile [--minutes 3] [--keys] [--page NAME] [--llm MODEL] [--asr MODEL] [--tts MODEL]

Eight clients chat, listen, transcribe and talk live (benchmarks/guests.py), first alone, then while clients of every
hostile kind (benchmarks/attacks.py, a process of its own) attack the same server. It fails when a guest's answer is
wrong or cut, when the server ends, or when memory does not return.

All of them are programs of one machine, so without keys they are one client. With ``--keys`` each guest has its own
key, and all attackers share one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import device, guests, live, report
from benchmarks.attacks import CHAT, TALK
from benchmarks.guests import Guests, Seen
from benchmarks.process import ServerProcess, serving
from benchmarks.sampling import Record, Sampler
from benchmarks.streams import authorization, percentile

from edgeserve.jobs import JOBS
from edgeserve.keys import file
from edgeserve.keys.key import Key, Scope, digest_of, make_token
from edgeserve.processes.resting import IDLE_SECONDS

WARM_UP = 20.0
SETTLE = IDLE_SECONDS + 5.0
"""Seconds after the last request until every engine is asked down, which drops its saved conversations, too.

The process that decodes clients' pictures has ended by then.
"""
RETURNED_MB = 15.0
"""Allowed growth: memory that libraries keep for ever after their first use."""
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
"""Asked for once before all: the first schema loads NumPy, and no attacker is needed for that."""
ALONE, ATTACKED = "alone", "attacked"
DRAWN = {"chat": "gap", "speech": "first", "transcription": "whole", "live": "whole"}
"""The part that each kind of guest waits for."""
KEYED = "Each guest has a key of its own, and all attackers share one."
UNKEYED = "Nobody has a key, so all programs of this machine are one client, attackers and guests alike."


@dataclass(frozen=True, slots=True)
class Tokens:
    """Keys of the benchmark itself, of each guest and of all attackers; empty on a server without keys."""

    owner: str = ""
    guests: tuple[str, ...] = ()
    attackers: str = ""

    @classmethod
    def written(cls, path: Path) -> Tokens:
        """New ones, in a file of keys for a server."""
        made = cls(make_token(), tuple(make_token() for _ in range(sum(guests.KINDS.values()))), make_token())
        scopes: dict[str, Scope] = {made.owner: "admin", **dict.fromkeys((*made.guests, made.attackers), "use")}
        keys = [Key(f"key-{number}", digest_of(token.encode()), scopes[token]) for number, token in enumerate(scopes)]
        file.write(path, keys)
        return made


def measure(
    server: ServerProcess, seconds: float, tokens: Tokens
) -> tuple[dict[str, Seen], Record, Mapping[str, Mapping[str, int]]]:
    """Guests for so long alone, and as long under attack; memory at rest before and after both."""
    voice = live.spoken(server, live.SENTENCES[1], tokens.owner)
    sound = live.recorded(server, guests.TEXT * 2, tokens.owner)
    house = Guests(server.port, sound, voice, tokens.guests)
    seen: dict[str, Seen] = {}
    with Sampler(server.pid) as sampler:
        asyncio.run(house.stay(WARM_UP))
        schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
        post(server, CHAT, tokens, {"messages": TALK, "response_format": schema, "max_tokens": 16})
        rest(server, sampler, "before", tokens)
        for name in (ALONE, ATTACKED):
            attack = started(server, seconds, tokens) if name == ATTACKED else None
            with sampler.span(name):
                seen[name] = asyncio.run(house.stay(seconds))
        assert attack is not None
        answers = json.loads(attack.communicate(timeout=120)[0])
        rest(server, sampler, "after", tokens)
    return seen, sampler.record, answers


def rest(server: ServerProcess, sampler: Sampler, name: str, tokens: Tokens) -> None:
    """Nobody asks, and every engine is cold; the last seconds are what is measured."""
    time.sleep(SETTLE)
    for path in [*(f"/memory/evict/{job}" for job in JOBS), "/memory/defragment"]:
        post(server, path, tokens)
    with sampler.span(name):
        time.sleep(5)


def post(server: ServerProcess, path: str, tokens: Tokens, body: Mapping[str, Any] | None = None) -> None:
    """Raises RuntimeError for an answer that is not 200."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/json", **authorization(tokens.owner)}
        connection.request("POST", path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        said = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"POST {path} answered {answer.status}: {said[:300]!r}")


def started(server: ServerProcess, seconds: float, tokens: Tokens) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.attacks", str(server.port), str(seconds), tokens.attackers]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def judged(seen: Mapping[str, Seen], record: Record, answers: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Faults, each in one line."""
    wrong = [f"{name}: {error}" for name, one in seen.items() for error in one.errors]
    wrong += [f"an attack, {kind}, was answered 500" for kind, count in answers.items() if "500" in count]
    more = record.end("after").pss - record.end("before").pss
    if more > RETURNED_MB:
        wrong.append(f"{more:.0f} MB more than before are held at rest; {RETURNED_MB:.0f} MB are allowed")
    return wrong


def guest_rows(seen: Mapping[str, Seen]) -> list[list[str]]:
    rows = []
    for kind in guests.KINDS:
        for part, words in guests.PARTS.items():
            values = [seen[name].times[kind, part] for name in (ALONE, ATTACKED)]
            if all(values):
                figures = [
                    f"{1000 * read:.0f}" for one in values for read in (statistics.median(one), percentile(one, 0.99))
                ]
                rows.append([f"{kind}, {words}", *figures])
    return rows


def count_rows(seen: Mapping[str, Seen]) -> list[list[str]]:
    return [
        [kind, *(f"{seen[name].answers[kind]} ({seen[name].refused[kind]})" for name in (ALONE, ATTACKED))]
        for kind in guests.KINDS
    ]


def attack_rows(answers: Mapping[str, Mapping[str, int]]) -> list[list[str]]:
    return [
        [kind, ", ".join(f"{answer} × {count}" for answer, count in sorted(counts.items()))]
        for kind, counts in answers.items()
    ]


def draw(name: str, seen: Mapping[str, Seen], record: Record) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (gaps, memory) = pyplot.subplots(2, 1, figsize=(8, 6.4), height_ratios=(3, 2))
    labels, places = [], []
    for number, kind in enumerate(guests.KINDS):
        part = DRAWN[kind]
        for shift, (phase, colour) in enumerate(((ALONE, "#4878a8"), (ATTACKED, "#c0504d"))):
            values = sorted(seen[phase].times[kind, part])
            gaps.boxplot(
                [values], positions=[number * 3 + shift], orientation="horizontal", whis=(1, 99), widths=0.7,
                showfliers=False, patch_artist=True, boxprops={"facecolor": colour}, medianprops={"color": "black"},
            )  # fmt: skip
        labels.append(f"{kind}: {guests.PARTS[part]}")
        places.append(number * 3 + 0.5)
    gaps.set_yticks(places, labels)
    gaps.set_xscale("log")
    gaps.set_xlabel("seconds: half of all, and 1% to 99%; blue alone, red while others attack")
    gaps.invert_yaxis()
    memory.plot([one.at for one in record.samples], [one.memory.pss for one in record.samples], color="#333333")
    for phase, colour in ((ALONE, "#4878a8"), (ATTACKED, "#c0504d")):
        memory.axvspan(record.mark(phase).at, record.mark(phase).until, color=colour, alpha=0.2)
    memory.set(xlabel="seconds", ylabel="server, Pss, MB", ylim=(0, None))
    for axis in (gaps, memory):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(report.picture(name), dpi=120)


def page(
    name: str, seen: Mapping[str, Seen], record: Record, answers: Mapping[str, Mapping[str, int]], about: str
) -> str:
    memory = [record.end("before"), record.peak(ALONE), record.peak(ATTACKED), record.end("after")]
    header = ["milliseconds", "alone, median", "99%", "attacked, median", "99%"]
    return "\n\n".join(
        [
            f"{about} Three guests chat, two listen to speech, two transcribe, one talks live. They stay alone first, "
            "then as long beside attackers of every kind below, on the same two cores. Guests pause between two "
            "questions, so that the box has time to spare; attackers run at the lowest priority, as if they came from "
            "elsewhere.",
            report.table(header, guest_rows(seen)),
            report.table(["answers (refused and tried again)", "alone", "attacked"], count_rows(seen)),
            report.table(
                [
                    "memory of the server, Pss, MB",
                    "all cold before",
                    "at most alone",
                    "at most attacked",
                    "all cold after",
                ],
                [["", *(f"{one.pss:.0f}" for one in memory)]],
            ),
            report.table(["attack, once a second", "answers"], attack_rows(answers)),
            f"![guests while others attack]({name}.png)",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--page", default="hostile", help="name of the page in docs/benchmarks")
    parser.add_argument("--keys", action="store_true", help="a key for each guest, and one for all attackers")
    device.add_arguments(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = device.prepare(Path(folder), device.chosen(arguments))
        path = Path(folder) / "keys.json"
        tokens = Tokens.written(path) if arguments.keys else Tokens()
        config = place.config("hostile", server={"keys_file": str(path)})
        with serving(config, "--log-level", "error", environ=place.environ) as server:
            server.wait_healthy()
            seen, record, answers = measure(server, 60 * arguments.minutes, tokens)
            server.get("/v1/health")  # the same process, and well
    model = Path(place.models.llm).stem
    draw(arguments.page, seen, record)
    title = f"Guests while others attack, with {model}"
    about = f"Eight guests of one server ({model}, whisper-tiny.en, hibari). "
    about += KEYED if arguments.keys else UNKEYED
    print(report.write(arguments.page, title, page(arguments.page, seen, record, answers, about)))
    wrong = judged(seen, record, answers)
    print("\n".join([*map(" | ".join, guest_rows(seen)), *wrong]))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
