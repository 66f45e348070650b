"""Proving one's own flows: kill and resume them at every write point, in real processes.

`crash_everywhere` is the proof; the pytest plugin beside it gives the fixture `hold`. Nothing here is used at
run time.
"""

from holdfast.testing.crashes import Crashes, Point, crash_everywhere

__all__ = ["Crashes", "Point", "crash_everywhere"]
