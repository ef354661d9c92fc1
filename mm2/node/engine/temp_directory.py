"""The temporary directory of a process, and those that killed processes have left."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

log = logging.getLogger("mm2.node")

_PREFIX = "mm2-"
_LOCK = "in-use"


class TempDirectory:
    """A directory of this process for one engine: Spark has its own in it, of the JVM and of its block manager, and SQL
    lanes their sockets.

    (A) While the process lives, it holds a lock (flock) on a file in the directory. The kernel releases it however the
        process ends; engine, JVM and lanes, which end with it, do not inherit it.
    (B) Only a directory whose file exists and is not locked is `remove_abandoned`: the file has its name only once it
        is locked. So a process whose directory is being created, or whose file system has no locks, keeps it.
    (C) Neither a directory of another user nor what a symbolic link points to is removed.
    (D) The file of the lock is removed last, and only with the directory: a JVM that is just ending can write to it
        meanwhile, and what is left is then removed by the next process.
    """

    def __init__(self, kind: str) -> None:
        """Create ``mm2-KIND-…`` in the directory for temporary files (TMPDIR, or /tmp)."""
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-"))
        self._lock = os.open(self.path / f"{_LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self.path / f"{_LOCK}.new").rename(self.path / _LOCK)

    def clear(self) -> None:
        """Remove what a JVM that was killed has left in it."""
        _clear(self.path)

    def remove(self) -> None:
        """Remove it."""
        with contextlib.suppress(OSError):  # the second time, after `kill`, or (D)
            _remove_all(self.path)
        with contextlib.suppress(OSError):  # the second time, after `kill`
            os.close(self._lock)


def remove_abandoned(kind: str) -> None:
    """Remove the directories that killed processes of this kind and user have left, and log it."""
    place, start = tempfile.gettempdir(), f"{_PREFIX}{kind}-"
    try:
        removed = [entry.name for entry in os.scandir(place) if entry.name.startswith(start) and _remove(entry)]
    except OSError as error:  # users can create files in it, and not list it
        why = error.strerror or error
        log.warning("cannot look for temporary directories of killed processes in %s: %s", place, why)
        return
    if removed:
        log.info("removed temporary directories of killed processes in %s: %s", place, ", ".join(sorted(removed)))


def _remove(entry: os.DirEntry[str]) -> bool:
    """Remove a directory if its process has ended; return whether it did."""
    try:
        directory = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # no directory, of another user, or removed in this moment
        return False
    try:
        if os.fstat(directory).st_uid != os.geteuid():
            return False
        lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            if not stat.S_ISREG(os.fstat(lock).st_mode):
                return False
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_all(Path(entry.path))
        finally:
            os.close(lock)
    except OSError:  # it is in use, being created or removed, has no lock, or (D)
        return False
    finally:
        os.close(directory)
    return True


def _clear(path: Path) -> None:
    """Remove all but the file of the lock, as far as possible."""
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry, ignore_errors=True)
        elif not entry.name.startswith(_LOCK):
            with contextlib.suppress(OSError):
                os.unlink(entry)


def _remove_all(path: Path) -> None:
    """Remove a directory (D). Raises OSError if there is none, or if another process writes to it."""
    _clear(path)
    locks = [entry for entry in os.scandir(path) if entry.name.startswith(_LOCK)]
    for lock in locks:
        os.unlink(lock)
    try:
        path.rmdir()
    except OSError:
        for lock in locks:
            Path(lock).touch(0o600)
        raise
