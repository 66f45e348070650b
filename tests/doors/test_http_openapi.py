"""The description as a stranger opens it: valid, whole, and with examples that are what they say."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from outlast.doors.http.openapi import described

METHODS = ("get", "put", "post", "delete")


@pytest.fixture(scope="module")
def page() -> Any:
    return described()


def operations(page: Any) -> Iterator[tuple[str, Any]]:
    for path, methods in page["paths"].items():
        for method, operation in methods.items():
            assert method in METHODS
            yield path, operation


def schemas(value: Any) -> Iterator[Any]:
    """Every schema that stands somewhere in a part of the description."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "schema":
                yield each
            elif name not in ("example", "examples", "value"):
                yield from schemas(each)
    elif isinstance(value, list):
        for each in value:
            yield from schemas(each)


def fits(page: Any, schema: Any, value: Any) -> bool:
    return bool(Draft202012Validator(schema | {"components": page["components"]}).is_valid(value))


def test_every_schema_is_one_of_json_schema_2020_12(page: Any) -> None:
    for name, schema in page["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
    for schema in schemas(page["paths"]):
        Draft202012Validator.check_schema(schema)


def test_the_parts_that_openapi_3_1_wants_are_there(page: Any) -> None:
    assert set(page) == {"openapi", "info", "paths", "components", "security", "tags"}
    assert {"title", "version", "description", "license"} <= set(page["info"])
    names = [operation["operationId"] for _, operation in operations(page)]
    assert len(names) == len(set(names))
    tags = {tag["name"] for tag in page["tags"]}
    for path, operation in operations(page):
        assert path.startswith("/")
        assert set(operation["tags"]) <= tags
        assert all(re.fullmatch(r"[1-5]\d\d", status) for status in operation["responses"])
        assert all(answer["description"] for answer in operation["responses"].values()), path


def test_a_path_and_its_parameters_agree(page: Any) -> None:
    for path, operation in operations(page):
        given = operation.get("parameters", [])
        in_path = {each["name"] for each in given if each["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", path))
        assert all(each["required"] for each in given if each["in"] == "path")
        places = [(each["in"], each["name"].lower()) for each in given]
        assert len(places) == len(set(places)), path


def test_a_stranger_is_told_what_everything_is(page: Any) -> None:
    for path, operation in operations(page):
        assert operation["summary"], path
        assert operation["description"], path
        assert all(each["description"] for each in operation.get("parameters", [])), path
    undescribed = [name for name, each in page["components"]["schemas"].items() if not each.get("description")]
    assert undescribed == []
    assert all(tag["description"] and not tag["description"].startswith("Calls about") for tag in page["tags"])


def test_every_example_of_a_body_is_one(page: Any) -> None:
    found = 0
    for path, operation in operations(page):
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            if kind == "application/json":
                assert fits(page, content["schema"], content["example"]), path
                found += 1
    assert found > 30


def test_every_example_of_a_problem_is_one_of_its_status(page: Any) -> None:
    examples = page["components"]["examples"]
    for _, operation in operations(page):
        for status, answer in operation["responses"].items():
            content = answer.get("content", {}).get("application/problem+json")
            if content is None:
                assert int(status) < 400
                continue
            told = [examples[ref["$ref"].rpartition("/")[2]]["value"] for ref in content["examples"].values()]
            assert told
            assert {problem["status"] for problem in told} == {int(status)}
            assert all(fits(page, content["schema"], problem) for problem in told)


def test_what_is_sent_or_answered_as_bytes_is_said_to_be(page: Any) -> None:
    upload = page["paths"]["/v1/workspace/artifacts"]["put"]
    assert list(upload["requestBody"]["content"]) == ["application/octet-stream"]
    assert {"408", "413", "415"} <= set(upload["responses"])
    content = page["paths"]["/v1/workspace/artifacts/content"]["get"]["responses"]
    assert list(content["200"]["content"]) == ["*/*"]
    assert list(content["206"]["content"]) == ["*/*"]
    assert "content" not in content["304"]
    assert set(page["paths"]["/v1/runs/{run_id}/events"]["get"]["responses"]["200"]["content"]) == {
        "application/json",
        "text/event-stream",
    }
