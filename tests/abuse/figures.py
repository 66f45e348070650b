"""What an abuse test counted, a line each, in `build/abuse-figures.txt`."""

from pathlib import Path

FILE = Path(__file__).parents[2] / "build" / "abuse-figures.txt"


def figures(topic: str, **numbers: object) -> None:
    """Add a line."""
    FILE.parent.mkdir(exist_ok=True)
    with FILE.open("a") as file:
        file.write(f"{topic}: {' '.join(f'{name}={value}' for name, value in numbers.items())}\n")
