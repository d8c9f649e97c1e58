"""Clears the folder of the SSD cache, for who keeps none any more."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from engine.kv.ssd.folder import FolderBusy, SsdFolder

log = logging.getLogger(__name__)


def clear_cache(root: Path) -> bool:
    """Remove every page file in the folder `root`, of any model whoever wrote it, and what is noted of them.

    What is not the cache's stays, and the empty files by which processes keep out of each other's way. Where
    `root` is a link, what it leads to is cleared. False, said in the log, when some may stay.
    """
    folder = SsdFolder(root, "", shutil.disk_usage)
    try:
        if not root.exists():
            return True
        folder.end_leases()
        with folder.locked():
            folder.clear()
    except (FolderBusy, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else "another process is writing there"
        log.warning("pages of chats stay in %s: %s", root, why)
        return False
    return True
