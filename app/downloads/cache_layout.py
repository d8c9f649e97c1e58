"""Where a repository lies in the Hugging Face cache, and how a finished download appears in it, all at once.

    models--ORGANISATION--NAME/
        blobs/CHECKSUM               contents; CHECKSUM.mlxr-part while they are not whole
        snapshots/COMMIT/FILE        links to blobs
        refs/main                    the commit that a branch had last

As in huggingface_hub's file_download.py, whose functions make the links and the refs here.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from huggingface_hub import file_download

from app.downloads.part_file import ENDING, length_of_part
from app.downloads.wanted import Plan, PlannedFile
from app.errors import DownloadFailed


class CacheLayout:
    """The folder of `repo` in the cache at `cache`. Nothing is created before it is needed.

    Raises DownloadFailed where links lead out of the cache: nothing is written through them.
    """

    def __init__(self, cache: Path, repo: str) -> None:
        name = file_download.repo_folder_name(repo_id=repo, repo_type="model")
        self.folder = cache / name
        self.lock = cache / ".locks" / name / "mlxr.lock"
        for folder in (self.folder, self._blobs, self.folder / "snapshots", self.folder / "refs"):
            _refuse_link(folder)

    @property
    def _blobs(self) -> Path:
        return self.folder / "blobs"

    @property
    def _aside(self) -> Path:
        return self.folder / "mlxr-new"

    def blob(self, file: PlannedFile) -> Path:
        """Where the content of `file` belongs."""
        return self._blobs / file.blob

    def make_folders(self) -> None:
        """Create what blobs are written into."""
        self._blobs.mkdir(parents=True, exist_ok=True)

    def copies(self, file: PlannedFile, commit: str) -> tuple[Path, ...]:
        """Where the content of `file` may lie whole. A disk without links keeps it in the snapshot."""
        return (self.blob(file), self.folder / "snapshots" / commit / file.name)

    def bytes_there(self, file: PlannedFile) -> int:
        """Bytes of `file` that need not be fetched, judged by sizes alone."""
        blob = self.blob(file)
        if blob.is_file() and blob.stat().st_size == file.size:
            return file.size
        return self.bytes_of_part(file)

    def bytes_of_part(self, file: PlannedFile) -> int:
        """Bytes of `file` that an earlier run left."""
        return min(file.size, length_of_part(self.blob(file)))

    def publish(self, plan: Plan, revision: str) -> Path:
        """Make the verified files a snapshot, then the snapshot what `revision` means. Returns its folder."""
        snapshot = self.folder / "snapshots" / plan.commit
        _refuse_link(snapshot)
        if snapshot.exists():
            self._link(plan.files, snapshot)
        else:
            self._link_at_once(plan, snapshot)
        # Private, but the one place that knows how a ref is written.
        file_download._cache_commit_hash_for_specific_revision(  # pyright: ignore[reportPrivateUsage]
            str(self.folder), revision, plan.commit
        )
        return snapshot

    def remove_parts(self, keep: Collection[str]) -> None:
        """Remove parts, but those of the blobs `keep`, and folders that are empty then."""
        self._clear_aside()
        for part in self._blobs.glob(f"*{ENDING}*"):
            if part.name.partition(ENDING)[0] not in keep:
                part.unlink()
        for folder in (self._blobs, self.folder):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    def _link_at_once(self, plan: Plan, snapshot: Path) -> None:
        """A new snapshot appears whole: it is linked aside, equally deep, and then takes its name."""
        self._clear_aside()  # a process that was killed here may have left any commit there
        aside = self._aside / plan.commit
        self._link(plan.files, aside)
        snapshot.parent.mkdir(exist_ok=True)
        aside.replace(snapshot)
        aside.parent.rmdir()

    def _clear_aside(self) -> None:
        _refuse_link(self._aside)
        if self._aside.exists():
            shutil.rmtree(self._aside)

    def _link(self, files: Sequence[PlannedFile], snapshot: Path) -> None:
        last_user = {file.blob: file for file in files}
        for file in files:
            link = snapshot / file.name
            _make_folders(self.folder, link.parent)
            blob = self.blob(file)
            if blob.exists():  # else this disk knows no links, and an earlier run has moved it to its place
                may_move = last_user[file.blob] is file
                file_download._create_symlink(  # pyright: ignore[reportPrivateUsage]
                    str(blob), str(link), new_blob=may_move
                )


def _make_folders(root: Path, folder: Path) -> None:
    """Create `folder` under `root`, through no link."""
    for part in reversed([folder, *folder.parents]):
        if part.is_relative_to(root):
            _refuse_link(part)
            part.mkdir(exist_ok=True)


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink():
        raise DownloadFailed(
            f"{folder} is a link to {folder.readlink()}; MLXR writes into the cache's own folders only: "
            "move the link away",
            is_resumable=True,
        )
