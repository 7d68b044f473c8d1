"""Sizes, tables, and the progress bar in a terminal and in a log."""

from __future__ import annotations

import io

import pytest
from support.cases import each
from support.gates import Clock

from edgeserve.terminal import ProgressBar, columns, human_size, human_time, is_terminal, table

MB = 1 << 20


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@each(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1536, "1.5 KB"),
        (98_362_432, "94 MB"),
        (int(23.54 * 1024 * MB), "24 GB"),
        (5 << 50, "5120 TB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert human_size(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (80, "1 min 20 s"), (7500, "2 h 05 min")])
def test_times(seconds: float, text: str) -> None:
    assert human_time(seconds) == text


def test_table_aligns_and_leaves_no_blanks_at_the_end() -> None:
    assert table(("name", "size"), [("hibari", "8 MB"), ("a", "")]) == "NAME    SIZE\nhibari  8 MB\na"


def test_a_table_is_cut_at_the_width_of_a_terminal() -> None:
    rows = [("hibari", "speaks"), ("a", "b")]
    assert table(("name", "what"), rows, 10).splitlines() == ["NAME    W…", "hibari  s…", "a       b"]
    assert table(("name", "what"), rows, 14) == table(("name", "what"), rows)


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert columns(Terminal()) == 72
    assert columns(io.StringIO()) is None


def test_a_closed_stream_is_no_terminal() -> None:
    stream = Terminal()
    assert is_terminal(stream)
    stream.close()
    assert not is_terminal(stream)


def test_log_gets_the_first_line_a_line_every_ten_seconds_and_the_last() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressBar(out, clock) as bar:
        for megabytes in range(101):
            bar.update("hibari: download", megabytes * MB, 100 * MB)
            clock.now += 0.25
    assert out.getvalue().splitlines() == [
        "hibari: download  0% of 100 MB",
        "hibari: download  40% of 100 MB  4.0 MB/s, 15 s left",
        "hibari: download  80% of 100 MB  4.0 MB/s, 5 s left",
        "hibari: download  100% of 100 MB  4.0 MB/s in 25 s",
    ]


def test_log_does_not_repeat_a_line() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressBar(out, clock) as bar:
        for _ in range(3):
            bar.update("hibari: download", 0, 0)
            clock.now += 10
    assert out.getvalue() == "hibari: download\n"


def test_terminal_redraws_one_line_and_ends_it() -> None:
    out, clock = Terminal(), Clock()
    bar = ProgressBar(out, clock)
    for _ in range(3):
        bar.update("x: download", 50 * MB, 100 * MB)
        clock.now += 1
    bar.close()
    bar.close()
    pictures = out.getvalue().split("\r")[1:]
    assert [picture.strip() for picture in pictures] == ["x: download  [==========          ] 50% of 100 MB"] * 3
    assert out.getvalue().count("\n") == 1


def test_terminal_is_not_redrawn_more_than_ten_times_a_second() -> None:
    out, clock = Terminal(), Clock()
    bar = ProgressBar(out, clock)
    for done in range(1000):
        bar.update("x: download", done, 1000)
        clock.now += 0.001
    bar.close()
    assert out.getvalue().count("\r") <= 12
    assert "100% of 1000 bytes" in out.getvalue().split("\r")[-1]


def test_a_new_step_begins_a_new_line_after_the_last_picture_of_the_old_one() -> None:
    out, clock = Terminal(), Clock()
    with ProgressBar(out, clock) as bar:
        bar.update("x: download", 0, 10)
        bar.update("x: download", 10, 10)
        bar.update("x: convert", 0, 0)
    first, second, _ = out.getvalue().split("\n")
    assert "100% of 10 bytes" in first.split("\r")[-1]
    assert second.strip() == "x: convert"


def test_resumed_bytes_are_not_counted_as_speed() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressBar(out, clock) as bar:
        bar.update("x", 90 * MB, 100 * MB)
        clock.now += 10
        bar.update("x", 100 * MB, 100 * MB)
    assert out.getvalue().splitlines()[-1] == "x  100% of 100 MB  1.0 MB/s in 10 s"


def test_a_step_that_has_no_bytes_shows_its_share_only() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressBar(out, clock) as bar:
        bar.update("x: convert", 0, 100, "share")
        clock.now += 5
        bar.update("x: convert", 100, 100, "share")
    assert out.getvalue().splitlines() == ["x: convert  0%", "x: convert  100%"]


def test_seconds_of_sound_are_shown_as_time() -> None:
    out, clock = io.StringIO(), Clock()
    with ProgressBar(out, clock) as bar:
        bar.update("talk.wav", 0.0, 600.0, "seconds")
        clock.now += 10
        bar.update("talk.wav", 150.5, 600.0, "seconds")
        clock.now += 30
        bar.update("talk.wav", 600.0, 600.0, "seconds")
        clock.now += 10
        bar.update("stdin", 70.2, 0, "seconds")
    told = out.getvalue().splitlines()
    assert told[1] == "talk.wav  25% of 10 min 00 s, 30 s left"
    assert told[-2:] == ["talk.wav  100% of 10 min 00 s in 40 s", "stdin  1 min 10 s"]
