"""From ``module:Class`` in the file to the class.

Modules are looked for where this Python looks for all of them: among the installed packages and on PYTHONPATH. The
directory of the file is not searched: who may write beside a configuration could run code as the node.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType
from typing import Any

from mm2.config.class_names import ClassKey, is_own
from mm2.config.java_types import one_of_words
from mm2.core.plugins import described

PAGE = "docs/extending.md"

_NAME = r"[^\W\d]\w*"
_IMPORT = re.compile(rf"(?P<module>{_NAME}(?:\.{_NAME})*):(?P<attribute>{_NAME})")
_CLOSE = 0.7  # MyFliter is MyFilter, and not every other class that ends in Filter
_JAVA_CLOSE = 0.9  # the class names of one Java package begin alike


class ClassProblem(Exception):
    """There is no such class, or it is not what its key asks for; as a text, rule, consequence and repair."""


def load(import_string: str) -> Any:
    """What stands at ``module:name`` of our own code."""
    module, _, name = import_string.partition(":")
    return getattr(import_module(module), name)


def load_own(text: str, key: ClassKey, directory: Path) -> type[Any]:
    """The user's class that ``text`` names; ``directory`` is the file's. Raises ClassProblem.

    The user's module is run for it. Whatever it raises is among the problems.
    """
    match = _IMPORT.fullmatch(text)
    if match is None:
        raise ClassProblem(_no_import_string(text, key))
    module = _module(match["module"], directory)
    own = _attribute(module, match["attribute"])
    _check_methods(own, key)
    return own


def _no_import_string(text: str, key: ClassKey) -> str:
    if close := get_close_matches(text, key.built_in, n=1, cutoff=_JAVA_CLOSE):
        return f"is no class of Java's MirrorMaker. Did you mean {close[0]}?"
    if is_own(text):
        return f"must be written module:Class, as in my.module:MyClass ({PAGE})."
    return (
        f"must be {one_of_words((*key.built_in, 'a class in Python, written module:Class'))}: Java classes cannot be "
        f"loaded here, this is Python. {PAGE} shows how to write {key.noun}."
    )


def _module(name: str, directory: Path) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ClassProblem(_broken(name, error)) from error
        raise ClassProblem(_missing(error.name, directory)) from error
    except (Exception, SystemExit) as error:
        raise ClassProblem(_broken(name, error)) from error


def _missing(name: str, directory: Path) -> str:
    sentence = f"names a module that is not there: {name} is neither installed nor on PYTHONPATH. "
    first = name.partition(".")[0]
    if (directory / f"{first}.py").is_file() or (directory / first).is_dir():
        return f"{sentence}There is one beside this file, where it is not looked for. Add that directory to PYTHONPATH."
    return f"{sentence}Install it, or add its directory to PYTHONPATH."


def _broken(name: str, error: BaseException) -> str:
    return f"names a module that cannot be imported: {name} raised {described(error)}. Correct the module."


def _attribute(module: ModuleType, name: str) -> type[Any]:
    classes = [known for known, found in vars(module).items() if isinstance(found, type) and not known.startswith("_")]
    found = getattr(module, name, None)
    if found is None:
        close = get_close_matches(name, classes, n=1, cutoff=_CLOSE)
        repair = f"Did you mean {module.__name__}:{close[0]}?" if close else "Correct the name."
        raise ClassProblem(f"names a class that is not there: {module.__name__} has no {name}. {repair}")
    if not isinstance(found, type):
        raise ClassProblem(f"must name a class, and {module.__name__}.{name} is none. Correct the name.")
    return found


def _check_methods(own: type[Any], key: ClassKey) -> None:
    base = key.base.replace(":", ".")
    methods = {name: getattr(own, name, None) for name in key.methods}
    lacking = [
        name
        for name, method in methods.items()
        if not callable(method) or getattr(method, "__isabstractmethod__", False)
    ]
    if lacking:
        raise ClassProblem(
            f"names a class that is not {key.noun}: it lacks {', '.join(lacking)}. Add what is missing, or inherit "
            f"from {base} ({PAGE})."
        )
    if key.asynchronous and not issubclass(own, load(key.base)):
        raise ClassProblem(f"names a class that is not {key.noun}: it must inherit from {base} ({PAGE}).")
    wrong = [name for name, method in methods.items() if iscoroutinefunction(method) is not key.asynchronous]
    if wrong:
        rule = "must be written async def" if key.asynchronous else "must be written def, without async"
        raise ClassProblem(f"names a class of which {', '.join(wrong)} {rule} ({PAGE}).")
