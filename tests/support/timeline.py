"""The picture of the timeline in a browser: the colours that it shows."""

from __future__ import annotations

from support.browser import Tab
from support.server import until

COLOURS = """() => {
  const canvas = document.querySelector('.timeline canvas');
  const wanted = (name) => {
    const probe = document.createElement('i');
    probe.style.color = `var(--${name})`;
    canvas.parentNode.append(probe);
    const found = getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).join();
    probe.remove();
    return found;
  };
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const count = {};
  for (let at = 0; at < data.length; at += 4) {
    const colour = data.slice(at, at + 3).join();
    count[colour] = (count[colour] ?? 0) + 1;
  }
  return Object.fromEntries(['series-1', 'series-2', 'text', 'bad'].map((name) => [name, count[wanted(name)] ?? 0]));
}"""


def drawn(tab: Tab, colour: str, least: int) -> None:
    """Wait until the picture has at least so many pixels of a colour, such as ``series-1`` or ``bad``."""
    until(lambda: tab.page.evaluate(COLOURS)[colour] >= least, seconds=60)
