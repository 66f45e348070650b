"""Which refs stand in what unfinished work says: found wherever they stand, and looked up without reading all of it."""

import pytest

from outlast.care.gc.blobs import Beginnings, _plain, _texts

from ..kit.cost import growth


def kept(*texts: str) -> Beginnings:
    found = Beginnings()
    found.update(text for each in texts for text in _texts(each.encode()))
    return found


@pytest.mark.parametrize(
    "text",
    [
        '"artifact:default/x@1"',
        '"see artifact:default/x@1, then go on"',
        '{"artifact:default/x@1": ["other artifact:default/y@2"]}',
        r'"{\"ref\": \"artifact:default\\/x@1\"}"',
        r'"{\\\"ref\\\": \\\"artifact:default/\\\\u0078@1\\\"}"',
        "no JSON: artifact:default/x@1",
        '"artifact:artifact:default/x@1"',
    ],
)
def test_a_ref_is_found_wherever_it_stands(text: str) -> None:
    assert "artifact:default/x@1" in kept(text)
    assert "artifact:default/z@1" not in kept(text)
    assert "artifact:default/x@2" not in kept(text)


def test_letters_that_were_escaped_in_two_halves_are_one_again() -> None:
    assert _plain(r"artifact:default/\\ud83d\\ude00@1") == "artifact:default/😀@1"


def look_up(number: int) -> None:
    refs = [f"artifact:default/file-{each}@{each + 1}" for each in range(number)]
    found = kept(*(f'"it needs {ref}"' for ref in refs))
    assert all(ref in found for ref in refs)


def test_looking_many_refs_up_costs_no_more_than_there_are() -> None:
    assert growth(lambda: look_up(1000), lambda: look_up(4000)) <= 8


@pytest.mark.parametrize("piece", ["\\", "artifact:", "\\u", "artifact:x@1"])
def test_no_text_costs_more_than_its_size(piece: str) -> None:
    small, large = (f"artifact:{piece * (size // len(piece))}" for size in (1 << 15, 1 << 17))
    assert growth(lambda: Beginnings().update([_plain(small)]), lambda: Beginnings().update([_plain(large)])) <= 8
