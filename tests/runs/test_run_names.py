"""What a run is filed under besides its task: text that can be printed, or nothing."""

from typing import Any

import pytest

from outlast import Run, flow
from outlast.errors import NameInvalid

from ..kit.place import Place


@flow
def nothing(run: Run) -> None:
    return None


@pytest.mark.parametrize("name", ["session", "trace_id"])
@pytest.mark.parametrize("given", [None, 7, object(), ["a"], " ", "a\nb", "a" * 501])
def test_what_is_no_printable_text_is_refused_by_name(place: Place, name: str, given: Any) -> None:
    with pytest.raises(NameInvalid, match=name):
        place.outlast.run(nothing, **{name: given})
    assert place.outlast.runs() == []


def test_text_and_nothing_are_kept_as_they_are(place: Place) -> None:
    place.outlast.run(nothing, session="Ann's talk", trace_id="").unwrap()
    (run,) = place.outlast.runs()
    assert (run.session, run.trace_id) == ("Ann's talk", "")
