"""Images on disk, safe for several processes at once and for a power loss at any moment.

    ROOT/blobs/HEX                           every blob once, for sharing between repositories
    ROOT/repositories/NAME/_blobs/HEX        a blob of a repository: a hard link
    ROOT/repositories/NAME/_manifests/HEX    the exact bytes of a manifest
    ROOT/repositories/NAME/_tags/TAG         a tag: a hard link to its manifest
    ROOT/repositories/NAME/_referrers/HEX/HEX    subject and what refers to it: an empty file
    ROOT/repositories/NAME/_lock             shared by writers, exclusive for what deletes
    ROOT/staging/ID                          what is on its way in

Content becomes visible under its digest only when it is whole and flushed; a tag is written last.
A repository's components never begin with `_`, so its folders and those of others cannot meet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from modelwright.oci import reference
from modelwright.oci.disk import make_folders
from modelwright.oci.staging import Staging
from modelwright.oci.stored import StoredRepository


class ImageStorage:
    """All repositories below one folder, which is made if it is absent."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.blobs = self.root / "blobs"
        self.staging = Staging(self.root / "staging")
        self._repositories = self.root / "repositories"
        for folder in (self.blobs, self.staging.folder, self._repositories):
            make_folders(folder)

    def repository(self, name: str) -> StoredRepository:
        """A repository, whether it exists yet or not. Raises Invalid if it is not a name by the grammar."""
        reference.split_name(f"localhost/{name}")
        return StoredRepository(name, self._repositories / name, self.blobs, self.staging)

    def repositories(self) -> list[str]:
        """The names of the repositories that hold a manifest, sorted."""
        return sorted(name for name in self.all_names() if self.repository(name).digests())

    def all_names(self) -> Iterator[str]:
        """The names of all repositories that were ever written to, in no order."""
        for place, folders, files in os.walk(self._repositories):
            if "_lock" in files:
                yield str(Path(place).relative_to(self._repositories))
            folders[:] = [folder for folder in folders if not folder.startswith("_")]
