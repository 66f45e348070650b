"""Two hundred workers and twenty thousand runs: each is executed by one owner at a time, and none is left behind."""

from pathlib import Path

import pytest

from .simulation import simulate


@pytest.mark.parametrize("seed", [1, 2])
def test_no_run_has_two_owners_and_none_is_stranded_however_machines_fail(
    tmp_path: Path, seed: int, crash_long: bool
) -> None:
    workers, runs = (200, 20_000) if crash_long else (12, 150)
    first, counts = simulate(tmp_path / "first", seed, workers, runs)
    again, _ = simulate(tmp_path / "again", seed, workers, runs)
    assert first == again
    print(f"seed {seed}, {workers} workers, {runs} runs: {dict(counts)}")
    assert counts["died"] >= 3
    assert counts["took"] > runs  # some were taken over
