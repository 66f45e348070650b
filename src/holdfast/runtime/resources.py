"""Live objects by key: never saved, provided again after a restore."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from holdfast.errors import NameInvalid, ResourceMissing


class Resources:
    """What this process provides. A factory is called when its object is first needed."""

    def __init__(self) -> None:
        self._open: dict[str, Any] = {}
        self._factories: dict[str, Callable[[], Any]] = {}
        self._lock = threading.RLock()

    def provide(self, key: str, value: Any = None, factory: Callable[[], Any] | None = None) -> None:
        if not isinstance(key, str) or not key:
            raise NameInvalid("resource", repr(key), "it must be a text")
        with self._lock:
            self._open.pop(key, None)
            self._factories[key] = factory or (lambda: value)

    def has(self, key: str) -> bool:
        return key in self._factories

    def get(self, key: str) -> Any:
        """The object. Raises ResourceMissing."""
        with self._lock:
            if key not in self._open:
                if key not in self._factories:
                    raise ResourceMissing(key)
                self._open[key] = self._factories[key]()
            return self._open[key]
