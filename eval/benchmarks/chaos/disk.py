"""A small disk that can be filled, or made read-only, during a training.

Root mounts a tmpfs for it. Otherwise the kernel's limit on file sizes (RLIMIT_FSIZE) emulates a
full disk, and a folder without write permission a read-only one.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

DISK_MIB = 8
_FILE_LIMIT = 2**15  # bytes; less than a checkpoint, more than the output of a short run


class SmallDisk:
    """A folder on a disk of DISK_MIB; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_mounted = False
        self._limited_pid: int | None = None

    def __enter__(self) -> SmallDisk:
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0 and shutil.which("mount"):
            self.is_mounted = self._mount("-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs")
        return self

    def __exit__(self, *exception: object) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)
        else:
            self.folder.chmod(0o755)

    @property
    def kind(self) -> str:
        return f"a tmpfs of {DISK_MIB} MiB" if self.is_mounted else "RLIMIT_FSIZE on the process"

    def fill(self, pid: int) -> None:
        """Leaves no space, at least for the process."""
        if not self.is_mounted:
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (_FILE_LIMIT, hard))
            self._limited_pid = pid
            return
        with suppress(OSError), open(self._filler, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        """Frees the space."""
        if self._limited_pid is not None:
            with suppress(ProcessLookupError):  # it has ended
                _, hard = resource.prlimit(self._limited_pid, resource.RLIMIT_FSIZE)
                resource.prlimit(self._limited_pid, resource.RLIMIT_FSIZE, (hard, hard))
        self._filler.unlink(missing_ok=True)

    def make_read_only(self) -> bool:
        """False if this user can write everywhere but may not mount."""
        if self.is_mounted:
            return self._mount("-o", "remount,ro")
        self.folder.chmod(0o555)
        return os.geteuid() != 0

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def _mount(self, *words: str) -> bool:
        command = ["mount", *words, str(self.folder)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
