"""The report of a run: a page, and a picture of events, answers and memory over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks import report
from benchmarks.chaos import events, judge
from benchmarks.chaos.clients import KINDS
from benchmarks.chaos.replies import FAILED, HUNG, LEFT, REFUSED, RIGHT, WRONG
from benchmarks.chaos.run import Seen

COLOURS = {RIGHT: "#9bbb59", REFUSED: "#f0a030", FAILED: "#c0504d", LEFT: "#bbbbbb", WRONG: "black", HUNG: "#7030a0"}


def text(name: str, seen: Seen, form: str, flags: str = "") -> str:
    """The body of the page. ``flags`` of the command beside seed and time."""
    plan = seen.plan
    lacking = "".join(f" Left out here: {kind}, because {why}." for kind, why in seen.lacking.items())
    command = f"python -m benchmarks.chaos --seed {plan.seed} --minutes {plan.seconds / 60:g}{flags}"
    return "\n\n".join(
        [
            f'{len(_asked(seen))} clients, each of its own kind, ask one server ({form}; `isolation = "process"`) for '
            f"{plan.seconds / 60:g} minutes, while the events of seed {plan.seed} hit its workers, files, memory and "
            f"disk: `{command}`. An eighth of the requests is left before its end; an eighth of the streams is read "
            f"slowly.{lacking}",
            _verdict(seen),
            report.table(["event", "times"], _events(seen)),
            report.table(["client", *COLOURS], _answers(seen)),
            report.table(["code", "answers"], _codes(seen)),
            report.table(["at rest, all engines cold", "before", "after"], _rests(seen)),
            report.table(["", ""], _others(seen)),
            f"![events, answers and memory]({name}.png)",
        ]
    )


def _verdict(seen: Seen) -> str:
    if not seen.faults:
        return "**No violation**: no request hung, no answer was wrong, every failure had a cause, nothing leaked."
    shown = "\n".join(f"- {line}" for line in seen.faults[:40])
    return f"**{len(seen.faults)} violations:**\n\n{shown}"


def _events(seen: Seen) -> list[list[str]]:
    counts = Counter(one.kind for one in seen.happened)
    return [[kind, str(counts[kind])] for kind in events.KINDS]


def _answers(seen: Seen) -> list[list[str]]:
    counts = Counter((one.kind, one.verdict) for one in seen.replies)
    return [[kind, *(str(counts[kind, verdict]) for verdict in COLOURS)] for kind in _asked(seen)]


def _asked(seen: Seen) -> list[str]:
    """The kinds of clients that took part."""
    took = {one.kind for one in seen.replies}
    return [kind for kind in KINDS if kind in took]


def _codes(seen: Seen) -> list[list[str]]:
    counts = Counter(one.code for one in seen.replies if one.code and one.kind != "bad")
    return [[f"`{code}`", str(count)] for code, count in counts.most_common()]


def _rests(seen: Seen) -> list[list[str]]:
    before, after = seen.rests
    rows = [["memory of all processes, Pss, MB", *(f"{one.memory:.1f}" for one in seen.rests)]]
    for name in sorted({*before.descriptors, *after.descriptors}):
        rows.append([f"descriptors of {name}", *(str(one.descriptors.get(name, 0)) for one in seen.rests)])
        rows.append([f"threads of {name}", *(str(one.threads.get(name, 0)) for one in seen.rests)])
    for what in ("memfds", "zombies", "strangers"):
        rows.append([what, *(str(getattr(one, what)) for one in seen.rests)])
    rows.append(["temporary files", *(str(len(one.files)) for one in seen.rests)])
    return rows


def _others(seen: Seen) -> list[list[str]]:
    looks = sorted(one.seconds for one in seen.looks) or [0.0]
    return [
        ["answers of /v1/health", str(len(seen.looks))],
        ["slowest of them, ms", f"{1000 * looks[-1]:.0f}"],
        ["processes that the kernel killed for want of memory", str(seen.kills)],
        ["longest request, s", f"{max((one.ended - one.began for one in seen.replies), default=0):.1f}"],
        ["events that found nobody to hit", str(len(seen.passed_over))],
        ["allowed growth at rest, MB", f"{judge.allowed(seen.rests[0]):.1f}"],
    ]


def draw(name: str, seen: Seen) -> None:
    """docs/benchmarks/NAME.png"""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, middle, below) = pyplot.subplots(3, 1, figsize=(11, 10), sharex=True, height_ratios=(3, 4, 2))
    _draw_events(above, seen)
    _draw_answers(middle, seen)
    samples = [one for one in seen.record.samples if seen.start - 2 <= one.at <= seen.end + 2]
    at = [one.at - seen.start for one in samples]
    below.stackplot(
        at,
        [one.processes[0].pss for one in samples],
        [one.processes[1].pss for one in samples],
        labels=("server", "its children"),
        colors=("#4878a8", "#a8c8e8"),
    )
    below.legend(loc="upper right", fontsize=8)
    below.set(xlabel="seconds", ylabel="Pss, MB", ylim=(0, None), xlim=(0, seen.end - seen.start))
    for axis in (above, middle, below):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(report.picture(name), dpi=110)


def _rows(axis: object, names: Sequence[str]) -> None:
    axis.set_yticks(range(len(names)), names, fontsize=8)  # type: ignore[attr-defined]
    axis.invert_yaxis()  # type: ignore[attr-defined]


def _draw_events(axis: object, seen: Seen) -> None:
    for one in seen.happened:
        row = events.KINDS.index(one.kind)
        length = max(one.until - one.at, 0.004 * (seen.end - seen.start))
        axis.barh(row, length, left=one.at - seen.start, height=0.7, color="#333333")  # type: ignore[attr-defined]
    _rows(axis, events.KINDS)


def _draw_answers(axis: object, seen: Seen) -> None:
    for verdict, colour in COLOURS.items():
        mine = [one for one in seen.replies if one.verdict == verdict and one.ended >= seen.start]
        axis.scatter(  # type: ignore[attr-defined]
            [one.ended - seen.start for one in mine],
            [KINDS.index(one.kind) for one in mine],
            s=9,
            color=colour,
            label=verdict,
            zorder=1 if verdict == RIGHT else 2,
        )
    axis.legend(  # type: ignore[attr-defined]
        loc="lower right", bbox_to_anchor=(1, 1), fontsize=8, ncols=6, frameon=False, markerscale=2
    )
    _rows(axis, KINDS)
