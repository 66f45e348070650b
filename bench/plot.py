"""Bars as an SVG, for the README and the docs: ours beside the limit and the others, on a scale of powers of ten."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

WIDTH, NAME_WIDTH, BAR_WIDTH, HEIGHT, GAP = 760, 230, 360, 22, 8
COLOURS = {"outlast": "#0b7285", "limit": "#adb5bd"}
OTHER = "#e8a35c"
FONT = 'font-family="system-ui, sans-serif" fill="currentColor"'

Bar = tuple[str, float]  # whose, and how much


def chart(title: str, unit: str, bars: Sequence[Bar], caption: str) -> str:
    """One chart. A bar that is ten times as long in life is one mark longer here; each says its figure."""
    low, high = _decades([value for _, value in bars])
    top = 34
    lines = [_bar(top + number * (HEIGHT + GAP), *bar, unit, low, high) for number, bar in enumerate(bars)]
    height = top + len(bars) * (HEIGHT + GAP) + 26
    told = [_text(0, 18, title), *lines, _text(0, height - 6, caption, size=11)]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">', *told, "</svg>\n"])


def _text(x: float, y: float, words: str, size: int = 13) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {FONT} font-size="{size}">{escape(words)}</text>'


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around all of them."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def _bar(y: int, name: str, value: float, unit: str, low: int, high: int) -> str:
    length = max(BAR_WIDTH * (log10(value) - low) / (high - low), 2)
    colour = next((found for word, found in COLOURS.items() if name.startswith(word)), OTHER)
    rect = f'<rect x="{NAME_WIDTH}" y="{y}" width="{length:.1f}" height="{HEIGHT}" fill="{colour}"/>'
    figure = _text(NAME_WIDTH + length + 6, y + 16, f"{value:,.{1 if value < 100 else 0}f} {unit}")
    return "\n".join([_text(0, y + 16, name.replace("`", "")), rect, figure])
