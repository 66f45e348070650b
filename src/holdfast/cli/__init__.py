"""The command line: parse, one call, render."""


def main() -> None:
    raise SystemExit(2)
