"""Secrets in events: masked before they are written, whatever says them."""

from dataclasses import dataclass
from typing import Any

import pytest

from outlast import Run, flow, step

from ..kit.place import KNOBS, Place

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@dataclass
class Login:
    user: str
    note: str


@step
def saying(what: Any) -> None:
    from outlast import current

    current().emit("from the step", KNOBS["body"])


@flow
def talking(run: Run) -> None:
    run.emit("from the body", KNOBS["body"])
    saying(1)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (f"the token is {TOKEN}", "the token is ***"),
        ({"at": ["x", {"note": TOKEN}]}, {"at": ["x", {"note": "***"}]}),
        (Login("ann", TOKEN), {"user": "ann", "note": "***"}),
        ({"n": 1, "says": "all well"}, {"n": 1, "says": "all well"}),
        (7, 7),
        (None, None),
    ],
)
def test_a_secret_in_an_event_is_masked(place: Place, body: Any, kept: Any) -> None:
    KNOBS["body"] = body
    place.outlast.run(talking).unwrap()
    for name in ("from the body", "from the step"):
        assert [event.body for event in place.events(name)] == [kept]
    place.close()
    assert all(TOKEN.encode() not in file.read_bytes() for file in place.home.rglob("*") if file.is_file())
