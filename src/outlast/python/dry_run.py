"""What a call of a flow would do, for doors that show it."""

from __future__ import annotations

from outlast.runs.dry_run import CONTINUE as CONTINUE
from outlast.runs.dry_run import GIVE as GIVE
from outlast.runs.dry_run import START as START
from outlast.runs.dry_run import DryRun as DryRun
