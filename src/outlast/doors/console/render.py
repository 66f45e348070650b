"""How values become HTML. Whatever an agent, a flow or a person wrote is text, never markup.

Every text that a template shows is escaped, and what would hide or turn other text (control characters, marks of
direction) is made visible. Nothing is cut without saying so.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from difflib import unified_diff
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from outlast.doors.console.asked import word
from outlast.values.codec import jsonable

HERE = Path(__file__).parent
LONGEST = 20_000  # characters of one text
WIDEST = 200  # items of one list
DEEPEST = 20
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_SPANS = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*|(https?://[^\s<>\"'`]+)")


def visible(value: Any) -> Any:
    """A text in which nothing is hidden: what cannot be seen is named."""
    if type(value) is not str:
        return value
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", value)


def cut(text: str, most: int = LONGEST) -> str:
    """A text, or the beginning of one that is too long, with how much of it is missing."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def ago(at: datetime | None, now: datetime | None = None) -> str:
    """How long ago, or in how long, in the unit that fits."""
    if at is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    size = abs(seconds)
    word = next((f"{size // unit:.0f} {name}" for unit, name in _UNITS if size >= unit), "")
    return "just now" if not word else f"{word} ago" if seconds > 0 else f"in {word}"


_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def when(at: datetime | None) -> Markup:
    """A time as a page shows it."""
    if at is None:
        return Markup("–")
    exact = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), exact, ago(at))


def lasted(seconds: float | None) -> str:
    """A duration for people."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def named(flow: str) -> str:
    """A flow's own name."""
    return flow.rpartition(":")[2] or flow


def sized(size: int | None) -> str:
    """Bytes for people."""
    if size is None:
        return ""
    amount = float(size)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def compact(value: Any, most: int = 160) -> str:
    """A value in one line."""
    return cut(json.dumps(jsonable(value), ensure_ascii=False, default=str), most)


# -- JSON as a tree ------------------------------------------------------------------------------------


def tree(value: Any) -> Markup:
    """A JSON value as nested lists that can be folded."""
    pairs = _pairs(value)
    return Markup('<ul class="json">{}</ul>').format(_items(pairs, 1)) if pairs else _leaf(value)


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """What is inside a value, by name or place; nothing of what has no inside."""
    if isinstance(value, dict):
        return [(str(name), each) for name, each in value.items()]
    return [(str(place), each) for place, each in enumerate(value)] if isinstance(value, list | tuple) else []


def _items(pairs: list[tuple[str, Any]], depth: int) -> Markup:
    items = Markup("").join(_named_item(name, each, depth) for name, each in pairs[:WIDEST])
    if len(pairs) > WIDEST:
        items += Markup('<li class="quiet">and {} more</li>').format(f"{len(pairs) - WIDEST:,}")
    return items


def _named_item(name: str, value: Any, depth: int) -> Markup:
    label, pairs = Markup('<span class="json-name" dir="auto">{}</span>').format(visible(name)), _pairs(value)
    if not pairs or _is_short(value):
        return Markup("<li>{}{}</li>").format(label, _leaf(value))
    count = Markup('<span class="quiet">{}</span>').format(("{%d}" if isinstance(value, dict) else "[%d]") % len(pairs))
    if depth >= DEEPEST:
        return Markup("<li>{}{}</li>").format(label, count)
    unfolded = Markup(" open") if depth < 4 and len(pairs) <= 50 else Markup("")
    inside = _items(pairs, depth + 1)
    form = Markup("<li><details{}><summary>{}{}</summary><ul>{}</ul></details></li>")
    return form.format(unfolded, label, count, inside)


def _is_short(value: Any) -> bool:
    """Whether a list is best read in its line."""
    plain = isinstance(value, list | tuple) and all(isinstance(each, int | float | bool) for each in value)
    return plain and len(value) <= 12


def _leaf(value: Any) -> Markup:
    if isinstance(value, str) and value:
        kind = "long" if "\n" in value or len(value) > 100 else "text"
        return Markup('<span class="json-{}" dir="auto">{}</span>').format(kind, visible(cut(value)))
    quiet = " quiet" if value is None or value == "" else ""
    return Markup('<span class="json-plain{}">{}</span>').format(quiet, json.dumps(value, default=str))


def inputs(recorded: Any) -> Any:
    """What a step was given: the values that are on record, or what stands for them."""
    if not isinstance(recorded, dict):
        return recorded
    known = ((name, each) for name, each in recorded.items())
    return {name: each["value"] if isinstance(each, dict) and set(each) == {"value"} else each for name, each in known}


# -- Markdown, as far as it is harmless ------------------------------------------------------------------


def markdown(text: str) -> Markup:
    """Headings, lists, code, bold and links of a text; all else as it stands. Raw HTML and images are text."""
    parts, lines = list[Markup](), visible(cut(text)).split("\n")
    while lines:
        parts.append(_block(lines))
    return Markup('<div class="prose" dir="auto">{}</div>').format(Markup("").join(parts))


def _block(lines: list[str]) -> Markup:
    line = lines.pop(0)
    if line.startswith("```"):
        return _fence(lines)
    if heading := _heading(line):
        return Markup('<p class="heading">{}</p>').format(_inline(heading))
    if item := _item(line):
        items, form = [item], Markup("<ol>{}</ol>") if line.strip()[0].isdecimal() else Markup("<ul>{}</ul>")
        while lines and (item := _item(lines[0])):
            items.append(item)
            lines.pop(0)
        return form.format(Markup("").join(Markup("<li>{}</li>").format(_inline(i)) for i in items))
    said = [line]
    while lines and lines[0].strip() and not _begins_block(lines[0]):
        said.append(lines.pop(0))
    return Markup("<p>{}</p>").format(_inline("\n".join(said))) if "".join(said).strip() else Markup("")


def _begins_block(line: str) -> bool:
    return line.startswith("```") or bool(_heading(line) or _item(line))


def _heading(line: str) -> str:
    """What a heading says; nothing when it is none."""
    marks, _, text = line.partition(" ")
    return text.strip() if marks and set(marks) == {"#"} and len(marks) < 7 else ""


def _item(line: str) -> str:
    """What an item of a list says; nothing when it is none."""
    mark, _, text = line.strip().partition(" ")
    return text.strip() if mark in ("-", "*", "+") or (mark[-1:] in (".", ")") and mark[:-1].isdecimal()) else ""


def _fence(lines: list[str]) -> Markup:
    code = list[str]()
    while lines and not (line := lines.pop(0)).startswith("```"):
        code.append(line)
    return Markup('<pre tabindex="0">{}</pre>').format("\n".join(code))


def _inline(text: str) -> Markup:
    done, at = Markup(""), 0
    for found in _SPANS.finditer(text):
        done += escape(text[at : found.start()])
        code, bold, link = found.groups()
        if code:
            done += Markup("<code>{}</code>").format(code)
        elif bold:
            done += Markup("<strong>{}</strong>").format(bold)
        else:
            done += Markup('<a href="{0}" rel="noreferrer noopener nofollow">{0}</a>').format(link)
        at = found.end()
    return done + escape(text[at:])


def diff(text: str) -> Markup:
    """A difference of files, line by line."""
    lines = (
        Markup('<span class="{}">{}</span>').format(_kind_of_line(line), visible(line) or " ")
        for line in cut(text).rstrip("\n").split("\n")
    )
    return Markup('<pre class="diff" tabindex="0">{}</pre>').format(Markup("").join(lines))


def difference(before: str, after: str) -> str:
    """What makes one text into another, line by line."""
    lines = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    return "\n".join([*lines][2:])


def _kind_of_line(line: str) -> str:
    if line.startswith(("--- ", "+++ ", "diff ")):
        return "file"
    return {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "same")


def looks_like_diff(text: str) -> bool:
    """Whether a text is a difference of files."""
    return text.startswith(("diff --git ", "--- ")) and "\n+" in text


def rich(value: Any) -> Markup:
    """What somebody is shown before he decides: a difference, a text, or a tree."""
    if isinstance(value, str):
        return diff(value) if looks_like_diff(value) else markdown(value)
    return tree(jsonable(value))


@cache
def environment() -> Environment:
    """The templates, and what they show values with."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(when=when, ago=ago, lasted=lasted, named=named, sized=sized, compact=compact)
    made.filters.update(tree=tree, markdown=markdown, diff=diff, rich=rich, cut=cut, inputs=inputs, word=word)
    return made


def page(name: str, **values: Any) -> bytes:
    """A template with its values."""
    return environment().get_template(name).render(**values).encode()
