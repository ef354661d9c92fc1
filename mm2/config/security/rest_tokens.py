"""Reads mm2.rest.tokens.file (`mm2.core.access.callers`) and checks the keys of access to the REST interface."""

from __future__ import annotations

import stat
from pathlib import Path

from mm2.config.grammar.problems import ProblemLog, SourceSpan, to_copy
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys.node_keys import OwnSettings, RestSettings
from mm2.core.access.callers import NamedToken, Role, read_tokens

TOKENS_FILE = "mm2.rest.tokens.file"
_ADMIN, _READ = "mm2.rest.admin", "mm2.rest.read"


def tokens_path(value: Value, directory: Path) -> Path:
    """Return the file that the key names; ``directory`` is that of the properties file."""
    return directory / value.text.strip()


def read_tokens_file(properties: Properties, directory: Path, problems: ProblemLog) -> tuple[NamedToken, ...]:
    """Return the tokens of the file that ``properties`` name; none, after an error, if it cannot be used."""
    value = properties.get(TOKENS_FILE)
    if value is None or value.entry is None or value.entry.broken:
        return ()
    if not value.text.strip():
        value.refuse(problems, "names no file", "write the path of the file, or remove the line")
        return ()
    path = tokens_path(value, directory)
    try:
        text, mode = path.read_text("utf-8-sig"), path.stat().st_mode
    except UnicodeDecodeError:
        value.refuse(problems, f"file {path} is not UTF-8", "convert the file to UTF-8")
        return ()
    except (OSError, ValueError) as error:  # ValueError: not a valid file name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        value.refuse(
            problems,
            f"file {path} cannot be read ({reason})",
            "check the path, which starts at the directory of this file, and that the user running mm2 can read it",
        )
        return ()
    tokens, wrong = read_tokens(text)
    for line in wrong:
        place = SourceSpan(file=str(path), line=line.line)
        problems.within(value.entry, place, line.rule, line.fix, is_warning=False)
    if mode & stat.S_IWOTH:  # everyone may read it: it has no tokens
        value.warn(
            problems,
            f"every user of this machine can add a token to {path}, because its mode is {stat.S_IMODE(mode):04o}",
            f"run chmod o-w {path}",
        )
    return tokens


def check_access(
    own: OwnSettings,
    rest: RestSettings,
    tokens: tuple[NamedToken, ...],
    properties: Properties,
    problems: ProblemLog,
) -> None:
    """Check that operators and viewers have tokens where they need them."""
    if own.rest_admin and own.rest_admin_token is None and "mm2.rest.admin.token" not in properties:
        properties[_ADMIN].refuse(
            problems,
            "requires mm2.rest.admin.token: nodes sign commands with it that they forward, and without tokens anyone "
            "who can connect to the listener could stop replication",
            "replace TOKEN with the output of the command openssl rand -hex 32, and add:"
            + to_copy("mm2.rest.admin.token = TOKEN"),
        )
    if own.rest_read == "token" and own.rest_admin_token is None and TOKENS_FILE not in properties:
        properties[_READ].refuse(
            problems,
            f"requires {TOKENS_FILE} or mm2.rest.admin.token: otherwise no one can read",
            "name a file with tokens, or remove the line",
        )
    if not rest.listeners and "listeners" not in properties and not rest.internal_rest:
        for key, is_set in ((_ADMIN, own.rest_admin), (_READ, own.rest_read == "token")):
            if is_set:
                properties[key].warn(
                    problems, "has no effect without listeners", "add listeners = http://127.0.0.1:8083"
                )
    if tokens and not own.rest_admin and any(one.role is Role.OPERATOR for one in tokens):
        properties[TOKENS_FILE].warn(
            problems,
            "operators cannot send commands, because mm2.rest.admin is not true",
            "add mm2.rest.admin = true, and mm2.rest.admin.token",
        )
