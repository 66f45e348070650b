"""Live objects that are never saved: opened, looked after, closed."""

from typing import Any

NOTHING: Any = object()  # provided where None is a value like any other
