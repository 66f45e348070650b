import pytest

from ..backends import PostgresSchema


@pytest.fixture
def kind() -> str:
    return PostgresSchema.kind
