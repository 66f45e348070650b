"""Masking what comes in pieces: as if it came in one, and nothing is held back for long."""

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.commands.transcript import Transcript
from outlast.secrets import stream as masking
from outlast.secrets.find import RULES, SecretRule, by_pattern, find, mask
from outlast.secrets.stream import Masking, spans_in

from ..kit.commands import wait_until

TOKEN = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2
KEY = f"-----BEGIN RSA PRI{'VATE'} KEY-----\n{BODY}\n{BODY}\n-----END RSA PRI{'VATE'} KEY-----"
TEXT = (
    f"é start\npassword = 'hunter2-x1'\n😀 {TOKEN}, done\n{KEY}\n"
    "Authorization: Bearer abc123def456\nDSN=postgres://a:s3cr3t@db/x\nend"
)


def masked_in(pieces: list[bytes], rules: tuple[SecretRule, ...] = RULES) -> tuple[str, int]:
    stream = Masking(rules)
    parts = [*map(stream.feed, pieces), stream.rest()]
    return b"".join(parts).decode(), stream.count


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 61, 1000])
def test_a_secret_is_masked_however_the_stream_is_cut(size: int) -> None:
    raw = TEXT.encode()
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    assert masked_in(pieces) == (mask(TEXT), 5)
    assert mask(TEXT).count("***") == 5


@given(st.lists(st.integers(0, len(TEXT.encode())), max_size=8), st.lists(st.booleans(), min_size=1, max_size=8))
def test_a_secret_is_masked_also_when_the_stream_pauses_within_it(cuts: list[int], pauses: list[bool]) -> None:
    raw, stream, parts = TEXT.encode(), Masking(RULES), []
    for number, (a, b) in enumerate(pairwise([0, *sorted(cuts), len(raw)])):
        parts.append(stream.feed(raw[a:b]))
        if pauses[number % len(pauses)]:
            parts.append(stream.pause())
    parts.append(stream.rest())
    assert (b"".join(parts).decode(), stream.count) == (mask(TEXT), 5)


def test_whole_lines_and_ordinary_beginnings_of_lines_are_let_through_at_once() -> None:
    stream = Masking(RULES)
    assert stream.feed(b"one\ntwo\r50%\rthr") == b"one\ntwo\r50%\r"
    assert (stream.feed(b"ee files, 12 M"), stream.pause()) == (b"", b"three files, 12 ")
    assert (stream.feed(b"B"), stream.pause()) == (b"", b"MB")
    assert (stream.feed(b" ###"), stream.pause()) == (b"", b" ###")
    assert (stream.feed(b", see the pat"), stream.pause()) == (b"", b", see the ")
    assert (stream.feed(b"h and gh"), stream.pause()) == (b"", b"path and ")
    assert (stream.feed(TOKEN[2:].encode()), stream.pause()) == (b"", b"")
    assert stream.feed(b" x\n") == b"*** x\n"
    assert stream.count == 1


def test_bytes_that_are_no_text_pass_as_they_are() -> None:
    raw = bytes(range(256)) * 3
    stream = Masking(RULES)
    assert stream.feed(raw) + stream.pause() + stream.rest() == raw
    assert [*spans_in(b"\xff " + TOKEN.encode() + b" \xfe")] == [(2, 2 + len(TOKEN))]


@pytest.mark.parametrize("size", [100, 4096, 65_536])
def test_a_line_without_end_is_held_back_in_part_only(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "LINE_BYTES", 4000)
    monkeypatch.setattr(masking, "NEAR_BYTES", 1000)
    text = " ".join(f"word{n} {TOKEN} password={n}hunter2x" if n % 50 == 0 else f"word{n}" for n in range(3000))
    raw, stream, parts, held = text.encode(), Masking(RULES), [], 0
    for at in range(0, len(raw), size):
        parts.append(stream.feed(raw[at : at + size]))
        held = max(held, len(stream._held))
    assert held <= 4000
    assert (b"".join(parts) + stream.rest()).decode() == mask(text)
    assert stream.count == 120


def test_a_secret_without_end_is_masked_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "LINE_BYTES", 4000)
    monkeypatch.setattr(masking, "NEAR_BYTES", 1000)
    key = KEY.replace(BODY, f"{BODY}\n" * 300)
    for secret in (key, TOKEN * 500, f'token = "{TOKEN * 500}"'):
        raw = f"a {secret} b\nc".encode()
        for size in (333, 5000, 100_000):
            text, count = masked_in([raw[at : at + size] for at in range(0, len(raw), size)])
            assert (text, count) == (mask(raw.decode()), 1)


def test_rules_of_ones_own_are_looked_for_too() -> None:
    rules = (*RULES, by_pattern("ours", "ours", "ours_[0-9]{6}", "ours_"))
    assert masked_in([b"see ours_12", b"3456, ", TOKEN.encode()], rules) == ("see ***, ***", 2)


def test_a_transcript_masks_what_looks_like_a_secret_and_shows_what_does_not(tmp_path: Path) -> None:
    transcript = Transcript(tmp_path / "out", ["kn0wn"], rules=lambda: RULES)
    writer = os.dup(transcript.writer)
    transcript.begin()
    os.write(writer, b"working ... ")
    wait_until(lambda: (tmp_path / "out").read_bytes() == b"working ... ")
    for piece in (b"kn0", b"wn and ", TOKEN[:9].encode(), TOKEN[9:].encode(), b".\n"):
        os.write(writer, piece)
    os.close(writer)
    assert transcript.join()
    assert (tmp_path / "out").read_bytes() == b"working ... *** and ***.\n"
    assert transcript.masked == 2
    assert [*find((tmp_path / "out").read_text())] == []
