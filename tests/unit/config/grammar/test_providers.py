from __future__ import annotations

import time
from pathlib import Path

import pytest

from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.providers import resolve

JAVA = "org.apache.kafka.common.config.provider"


def resolved(keys: dict[str, str]) -> tuple[dict[str, Entry], ProblemLog]:
    problems = ProblemLog("f")
    entries = {
        key: Entry(file="f", line=line, key=key, raw=value, value=value)
        for line, (key, value) in enumerate(keys.items(), 1)
    }
    return resolve(entries, problems), problems


def provider(kind: str, **params: str) -> dict[str, str]:
    return {
        "config.providers": "p",
        "config.providers.p.class": f"{JAVA}.{kind}ConfigProvider",
        **{f"config.providers.p.param.{name.replace('_', '.')}": value for name, value in params.items()},
    }


def one(keys: dict[str, str], value: str) -> str:
    entries, problems = resolved({**keys, "k": value})
    if entries["k"].broken:
        return next(str(problem) for problem in problems.in_order())
    assert not problems.in_order()
    return entries["k"].value


def test_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM2_UNIT", "v")
    assert one(provider("EnvVar"), "a ${p:MM2_UNIT} b ${p::MM2_UNIT}") == "a v b v"
    assert one(provider("EnvVar", allowlist_pattern="MM2_.*"), "${p:MM2_UNIT}") == "v"
    assert "allowlist.pattern" in one(provider("EnvVar", allowlist_pattern="MM3_.*"), "${p:MM2_UNIT}")
    assert "environment variable MM2_NOT is not set" in one(provider("EnvVar"), "${p:MM2_NOT}")


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text("password = geh\\u0065im\nuser = m\u00fcller\n", "utf-8")
    assert one(provider("File"), f"${{p:{file}:user}}/${{p:{file}:password}}") == "müller/geheim"
    assert "has no key x" in one(provider("File"), f"${{p:{file}:x}}")
    assert "no path" in one(provider("File"), "${p:password}")
    assert "cannot be read" in one(provider("File"), f"${{p:{tmp_path}/none:x}}")
    file.write_bytes(b"a = \xff\n")
    assert "cannot be read ('utf-8' codec" in one(provider("File"), f"${{p:{file}:a}}")
    file.write_text("a = \\u00\n")
    assert "invalid escape" in one(provider("File"), f"${{p:{file}:a}}")


def test_directories(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("geheim")
    (tmp_path / "inner").mkdir()
    assert one(provider("Directory"), f"${{p:{tmp_path}:password}}") == "geheim"
    assert "no file inner" in one(provider("Directory"), f"${{p:{tmp_path}:inner}}")
    assert "no file ../x" in one(provider("Directory"), f"${{p:{tmp_path}/inner:../x}}")


def test_allowed_paths(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f").write_text("v")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f").write_text("v")
    allowed = provider("Directory", allowed_paths=f"{tmp_path}/in,{tmp_path}/in/../in")
    assert one(allowed, f"${{p:{tmp_path}/in:f}}") == "v"
    assert "does not allow" in one(allowed, f"${{p:{tmp_path}/out:f}}")
    assert "does not allow" in one(allowed, f"${{p:{tmp_path}/in/../out:f}}")
    _, problems = resolved(provider("File", allowed_paths="relative"))
    assert "not absolute or does not exist" in str(problems.in_order()[0])


def test_undeclared_providers() -> None:
    assert "config provider q is not declared" in one({}, "${q:x}")
    assert one({}, "${no.colon} $x:y}") == "${no.colon} $x:y}"
    assert "environment variables are not expanded" in one({}, "${HOME}")
    entries, problems = resolved({"spark.executorEnv.A": "${env:A}"})
    assert entries["spark.executorEnv.A"].value == "${env:A}"
    assert not problems.in_order()


def test_invalid_provider_is_reported_once() -> None:
    keys = {"config.providers": "p", "config.providers.p.class": "com.example.P", "a": "${p:x}", "b": "${p:y}"}
    entries, problems = resolved(keys)
    assert entries["a"].broken
    assert entries["b"].broken
    assert [problem.key for problem in problems.in_order()] == ["config.providers.p.class"]


def test_a_value_of_many_unfinished_references_takes_no_time() -> None:
    began = time.monotonic()
    assert one(provider("EnvVar"), "${a:" * 2_000) == "${a:" * 2_000
    assert time.monotonic() - began < 30.0  # 0.3 s; Java's regular expression takes hours


@pytest.mark.parametrize(
    ("kind", "file", "key"), [("File", "secrets", "password"), ("Directory", "password", "password")]
)
def test_symbolic_links_do_not_lead_out_of_allowed_paths(tmp_path: Path, kind: str, file: str, key: str) -> None:
    """Java compares the paths as they are written."""
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    (outside / "data").mkdir(parents=True)
    (outside / "data" / file).write_text("password = text\n")
    allowed.mkdir()
    (allowed / "folder").symlink_to(outside / "data")
    (allowed / "file").symlink_to(outside / "data" / file)
    declared = provider(kind, allowed_paths=str(allowed))
    links = [f"${{p:{allowed}/folder/{file}:{key}}}", f"${{p:{allowed}/file:{key}}}"]
    if kind == "Directory":
        links = [f"${{p:{allowed}/folder:{key}}}", f"${{p:{allowed}:file}}"]
    for reference in links:
        said = one(declared, reference)
        assert "cannot be resolved: allowed.paths does not allow" in said
        assert f"which is {outside}/data" in said
        assert f"add {outside}/data to allowed.paths" in said
    both = provider(kind, allowed_paths=f"{allowed},{outside}/data")
    assert [one(both, reference).strip()[-4:] for reference in links] == ["text", "text"]


def test_symbolic_links_within_allowed_paths_are_followed(tmp_path: Path) -> None:
    """As in a mounted Secret of Kubernetes; the allowed path itself may be one, too."""
    (tmp_path / "real" / "..2026").mkdir(parents=True)
    (tmp_path / "real" / "..2026" / "password").write_text("text")
    (tmp_path / "real" / "..data").symlink_to("..2026")
    (tmp_path / "real" / "password").symlink_to("..data/password")
    (tmp_path / "run").symlink_to("real")
    declared = provider("Directory", allowed_paths=str(tmp_path / "run"))
    assert one(declared, f"${{p:{tmp_path}/run:password}}") == "text"
