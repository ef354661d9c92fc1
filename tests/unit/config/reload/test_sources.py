from __future__ import annotations

import os
from pathlib import Path

import pytest

from mm2.config.reload.sources import LoadedConfig, named_files, sign, take
from tests.unit.config.files import CLUSTERS
from tests.unit.config.readings import read
from tests.unit.config.security.tls.issued import issue

PROVIDERS = (
    "config.providers = env, file, dir, odd\n"
    "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
    "config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
    "config.providers.odd.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
    "config.providers.odd.param.allowed.paths = /nowhere\n"
)


def taken(directory: Path, lines: str, also: tuple[Path, ...] = ()) -> LoadedConfig:
    path = directory / "mm2.properties"
    path.write_text(CLUSTERS + lines)
    return take(path, (), also)


def test_file_without_references(tmp_path: Path) -> None:
    first = taken(tmp_path, "")
    assert first.reading is not None
    assert list(first.signature) == [tmp_path / "mm2.properties"]
    assert first.signature == sign(first.signature)


def test_files_behind_references_and_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ca.pem", "me.pem"):
        (tmp_path / name).write_text("".join(issue(name)))
    (tmp_path / "more.properties").write_text("tasks = 3\n")
    (tmp_path / "topics").write_text("a.*")
    monkeypatch.setenv("MM2_TEST_WORD", "x")
    reading = read(
        tmp_path,
        PROVIDERS.replace(", odd", "")
        + f"tasks.max = ${{file:{tmp_path}/more.properties:tasks}}\ntopics = ${{dir:{tmp_path}:topics}}\n"
        f"my.key = ${{env:MM2_TEST_WORD}}\nA.ssl.truststore.type = PEM\nA.ssl.truststore.location = {tmp_path}/ca.pem\n"
        f"A.security.protocol = SSL\nB.ssl.keystore.type = PEM\nB.consumer.ssl.keystore.location = {tmp_path}/me.pem\n"
        "spark.x = ${other:y}\nB.ssl.keystore.location =\nB.consumer.security.protocol = PLAINTEXT\n"
        "B.security.protocol = PLAINTEXT\n",
    )
    assert named_files(reading.file, tmp_path) == tuple(
        tmp_path / name for name in ("ca.pem", "me.pem", "more.properties", "topics")
    )


def test_missing_files_are_watched(tmp_path: Path) -> None:
    missing_file, also = tmp_path / "missing_file.properties", tmp_path / "before"
    lines = (
        f"tasks.max = ${{file:{missing_file}:x}}\ntopics = ${{odd:/some/where:x}}\ngroups = ${{file::x}}\n"
        f"A.ssl.truststore.location = ${{dir:{tmp_path}:location}}\n"
    )
    broken = taken(tmp_path, PROVIDERS + lines, (also,))
    assert broken.reading is None
    assert set(broken.signature) == {tmp_path / "mm2.properties", missing_file, also, tmp_path / "location"}
    assert len(broken.problems) == 4
    good = taken(tmp_path, "", tuple(broken.signature))
    assert good.reading is not None
    assert list(good.signature) == [tmp_path / "mm2.properties"]


def test_unreadable_file(tmp_path: Path) -> None:
    missing = take(tmp_path / "mm2.properties", (), (tmp_path / "x",))
    assert missing.reading is None
    assert set(missing.signature) == {tmp_path / "mm2.properties", tmp_path / "x"}


def test_every_kind_of_change_is_detected(tmp_path: Path) -> None:
    path, other, link = tmp_path / "file", tmp_path / "other", tmp_path / "link"
    seen = [sign((path,))[path]]
    path.write_text("aaaa")
    times = (os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns)
    seen.append(sign((path,))[path])
    path.write_text("bbbb")  # same size and modification time
    os.utime(path, ns=times)
    seen.append(sign((path,))[path])
    other.write_text("cccc")
    other.rename(path)
    seen.append(sign((path,))[path])
    path.unlink()
    link.mkdir()
    path.symlink_to(link)
    seen.append(sign((path,))[path])
    assert len(set(seen)) == len(seen)


def test_touched_file_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("aaaa")
    before = sign((path,))
    os.utime(path, ns=(1, 1))
    path.chmod(0o600)
    assert sign((path,)) == before


def test_pipe_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert sign((pipe,)) == {pipe: "no file: 10000"}


def test_invalid_file_name() -> None:
    path = Path("a\0b")
    assert sign((path,)) == {path: "cannot be read: ValueError"}


def test_file_of_tokens_is_watched(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"alice viewer {'a' * 64}\n")
    assert tmp_path / "tokens" in taken(tmp_path, "mm2.rest.tokens.file = tokens\n").signature
    assert len(taken(tmp_path, "mm2.rest.tokens.file =\n").signature) == 1
