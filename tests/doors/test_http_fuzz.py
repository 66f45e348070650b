"""The description and the server agree: requests made from OpenAPI by schemathesis get answers that it describes.

A few for each operation here; `make fuzz` makes many, and lets schemathesis itself choose further ones (fuzz_http.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from outlast.doors.http.app import CALLS
from outlast.doors.http.openapi import described

from .http_world import FLOWS, World, world
from .server import Served, is_our_failure, served

OPERATIONS = {call.name: call for call in CALLS}
SEED = 17


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, flows=FLOWS, poll_seconds=0.02, wait_seconds=2.0) as found:
        yield found
    assert [line["trace"][-1000:] for line in found.log() if is_our_failure(line)] == []


@pytest.fixture(scope="module")
def ours(server: Served) -> World:
    return world(server, "acme")


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    """What schemathesis makes of the description, by name. Loaded here: pytest starts faster without."""
    import schemathesis

    found = (each.ok() for each in schemathesis.openapi.from_dict(described()).get_all_operations())
    return {each.definition.raw["operationId"]: each for each in found}


def real(ours: World, case: Any, name: str) -> Any:
    """The same request about what is there: otherwise nearly all would be about nothing."""
    call = OPERATIONS[name]
    case.path_parameters = {each: ours.known(call)[each] for each in case.path_parameters or {}}
    query = {each: value for each, value in (case.query or {}).items() if each not in ("cursor", "wait", "scope")}
    case.query = query | ours.query_of(call)
    if isinstance(case.body, dict):
        case.body = {each: value for each, value in case.body.items() if each != "scope"} | (ours.body_of(call) or {})
    return case


def try_all(ours: World, operation: Any, name: str, count: int) -> None:
    from schemathesis import checks

    wanted = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]
    headers = {"authorization": f"Bearer {ours.owner}"}
    base = f"http://127.0.0.1:{ours.server.port}"

    @seed(SEED)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), is_real=st.booleans())
    def ask(case: Any, is_real: bool) -> None:
        case = real(ours, case, name) if is_real else case
        case.call_and_validate(base_url=base, headers=headers, checks=wanted, timeout=30)

    ask()


def test_what_is_asked_as_described_is_answered_as_described(
    ours: World, operations: dict[str, Any], subtests: pytest.Subtests, crash_long: bool
) -> None:
    """One test, not one for each operation: the description is loaded by one of the processes that run tests."""
    assert OPERATIONS.keys() <= operations.keys()
    for name in OPERATIONS:
        with subtests.test(name):
            try_all(ours, operations[name], name, 200 if crash_long else 2)
