"""Content on its way into a bucket: collected on this machine, in constant memory, then uploaded."""

from __future__ import annotations

from outlast.store.blobs.intake import FolderIntake
from outlast.store.contract.blobs import Stored


class S3Intake(FolderIntake):
    """The same as in a folder, but for what is there already: the bucket is asked for its checksum when it is stored.

    To read it back, as a folder does, would cost more than to send it.
    """

    def _there(self, known: Stored | None) -> Stored | None:
        return None
