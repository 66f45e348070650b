"""Proving one's own flows: kill and resume them at every write point, in real processes.

`crash_everywhere` is the proof; `case_from_run` freezes a run as a test case; the pytest plugin beside them gives the
fixture `outlast`. Nothing here is used at run time.
"""

from outlast.testing.cases import Case, case_from_run
from outlast.testing.crashes import Crashes, Point, crash_everywhere

__all__ = ["Case", "Crashes", "Point", "case_from_run", "crash_everywhere"]
