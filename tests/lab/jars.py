"""Kafka's jars by Maven coordinates: downloaded once into a cache outside the source tree, offline afterwards."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from jgo.maven import Artifact, MavenContext

KAFKA_4 = "4.3.1"
KAFKA_3 = "3.9.1"  # the last with ZooKeeper mode and MirrorMaker 1; the older broker to test against
VERSIONS = (KAFKA_4, KAFKA_3)

MODULES = ("kafka_2.13", "kafka-tools", "connect-mirror", "connect-json")
LOGGER = "org.slf4j:slf4j-simple:1.7.36"  # Kafka 3.9 and 4.3 both are written to slf4j 1.7
OTHER_BINDINGS = {"slf4j-reload4j"}  # of two bindings on a class path slf4j takes either, and prints a warning

ATTEMPTS = 3
DOWNLOADS_AT_ONCE = 8
HTTP_TIMEOUT = 60  # seconds; jgo's own 10 is short for a 10 MB jar over a slow line


def cache_directory() -> Path:
    """``$XDG_CACHE_HOME/mm2``, by default ``~/.cache/mm2``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mm2"


def class_path(version: str) -> str:
    """The class path of broker, tools and MirrorMaker of a Kafka version; downloads it first if it is missing.

    Raises RuntimeError if it can be neither found nor downloaded.
    """
    jars = cache_directory() / f"kafka-{version}"
    if not jars.is_dir():
        with _locked(jars):
            if not jars.is_dir():
                _fetch(version, jars)
    return os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))


def _fetch(version: str, target: Path) -> None:
    """Fill ``target`` with all jars, or leave it absent: it is renamed into place after everything was verified."""
    say = f"Kafka {version}:"
    print(say, "fetching its jars from Maven Central, once", flush=True)
    begun = time.monotonic()
    repository, part = target.with_name(f"{target.name}.maven"), target.with_name(f"{target.name}.part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            jars = _download(version, repository)
            break
        except Exception as problem:
            _remove_broken(repository)
            if attempt == ATTEMPTS:
                raise RuntimeError(
                    f"{say} cannot fetch its jars: {problem}. Is repo.maven.apache.org reachable?"
                ) from problem
            print(say, f"{problem}; trying again", flush=True)
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for jar in jars:
        jar.rename(part / jar.name)
    part.rename(target)
    shutil.rmtree(repository)
    megabytes = sum(jar.stat().st_size for jar in target.iterdir()) / 1e6
    print(say, f"{len(jars)} jars, {megabytes:.0f} MB, in {time.monotonic() - begun:.0f} s", flush=True)


def _download(version: str, repository: Path) -> list[Path]:
    maven = MavenContext(repo_cache=repository, timeout=HTTP_TIMEOUT)
    coordinates = [*(f"org.apache.kafka:{module}:{version}" for module in MODULES), LOGGER]
    asked, needed = maven.resolver.resolve([maven.create_dependency(coordinate) for coordinate in coordinates])
    artifacts = [item.artifact for item in (*asked, *needed) if item.artifact.artifactId not in OTHER_BINDINGS]
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        return list(pool.map(_download_one, artifacts))


def _download_one(artifact: Artifact) -> Path:
    jar = Path(artifact.resolve())
    with zipfile.ZipFile(jar) as archive:
        broken = archive.testzip()
    if broken is not None:
        raise RuntimeError(f"{jar.name} is damaged at {broken}")
    return jar


def _remove_broken(repository: Path) -> None:
    """jgo writes a download straight to its final name: what was cut off would count as present."""
    for jar in repository.rglob("*.jar"):
        if not zipfile.is_zipfile(jar):
            jar.unlink()
    for pom in repository.rglob("*.pom"):
        if not pom.read_bytes().rstrip().endswith(b">"):
            pom.unlink()


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
