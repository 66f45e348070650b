"""The peers' own environment, so that nothing they need mixes with what Outlast needs."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parent / ".venv-peers"
PYTHON = ENVIRONMENT / "bin" / "python"
REQUIREMENTS = HERE / "requirements.txt"
INSTALLED = ENVIRONMENT / "installed.txt"


def install() -> str | None:
    """Make the environment as `requirements.txt` says; the reason when that cannot be done."""
    if INSTALLED.exists() and INSTALLED.read_text() == REQUIREMENTS.read_text():
        return None
    print("installing the peers ...", flush=True)
    for command in (
        [sys.executable, "-m", "venv", str(ENVIRONMENT)],
        [str(PYTHON), "-m", "pip", "install", "--quiet", "--requirement", str(REQUIREMENTS)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return _last_error(done.stderr)
    INSTALLED.write_text(REQUIREMENTS.read_text())
    return None


def versions() -> list[str]:
    """The pinned names, as the results print them."""
    return [line for line in REQUIREMENTS.read_text().splitlines() if line]


def _last_error(stderr: str) -> str:
    errors = [line for line in stderr.splitlines() if line.startswith(("ERROR", "Error"))]
    return errors[-1] if errors else "the environment could not be made"
