"""Schemathesis with all of its phases and checks, for minutes: no part of `make test`, but of `make fuzz`."""

import subprocess
import sys

from .http_world import World
from .server import Served
from .test_http_fuzz import SEED, ours, server  # noqa: F401 - fixtures

EACH = 50
UNWANTED = "positive_data_acceptance"  # a schema does not say that an id must be one that is there


def test_schemathesis_by_its_own_choice_finds_nothing(server: Served, ours: World) -> None:  # noqa: F811
    """Wrong data too, and sequences of calls."""
    words = ["run", f"http://127.0.0.1:{server.port}/openapi.json", "-H", f"Authorization: Bearer {ours.owner}"]
    words += ["--seed", str(SEED), "--max-examples", str(EACH), "--request-timeout", "30", "--exclude-checks", UNWANTED]
    words += ["--wait-for-schema", "120"]  # on a loaded machine the first answer takes its time
    words += ["--generation-database", "none", "--continue-on-failure", "--no-color"]
    made = subprocess.run([sys.executable, "-m", "schemathesis.cli", *words], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout[-20_000:]
