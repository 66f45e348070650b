"""The same command, repeated by a supervisor under random kills, stops, deploys and reboots: everything happens once.

CI kills half a dozen times, `make chaos` three hundred times. The seed is printed: `CHAOS_SEED=N` chooses the same.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from ..abuse.figures import figures
from .supervisor import Figures, Supervisor
from .world import a_world

pytestmark = [pytest.mark.crash, pytest.mark.timeout(3600)]

SHORT, LONG = 6, 300
SEED = 2026  # of the slice in CI


def check(supervisor: Supervisor) -> None:
    """Nothing is stranded: no run unfinished or beside another, nothing due or asked, every record as it was."""
    runs = supervisor.ask("runs", "--limit", "10000")["runs"]
    assert Counter(run["status"] for run in runs) == {"succeeded": supervisor.figures.orders}
    assert supervisor.ask("tick", "--dry-run")["runs"] == []
    assert supervisor.ask("inbox")["waits"] == []
    assert supervisor.ask("verify")["ok"]
    for run in runs:
        receipts = supervisor.ask("receipts", run["id"])["receipts"]
        good = Counter(one["label"] for one in receipts if one["status"] == "succeeded")
        assert set(good.values()) == {1}, (run["id"], good)


def test_under_kills_deploys_and_reboots_every_effect_happens_once_and_nothing_is_stranded(
    tmp_path: Path, crash_long: bool
) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or (random.randrange(1 << 32) if crash_long else SEED))
    counted, kills, began = Figures(seed), LONG if crash_long else SHORT, time.monotonic()
    print(f"chaos: CHAOS_SEED={seed}")
    with a_world() as world:
        supervisor = Supervisor(tmp_path / "chaos", world, random.Random(seed), counted)
        try:
            while counted.kills < kills:
                supervisor.order(supervisor.dice.randint(6, 12))
            check(supervisor)
        finally:
            supervisor.signal_all(9)
            seconds = round(time.monotonic() - began)
            numbers = {"orders": counted.orders, "starts": counted.starts, "deploys": counted.deploys}
            figures("chaos", seed=seed, kills=counted.kills, **numbers, **counted.happened, seconds=seconds)
