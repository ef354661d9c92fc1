"""Loading of the classes that users write as ``module:Class``.

Modules are imported from the installed packages and PYTHONPATH. The directory of the file is not searched: otherwise
anyone with write access to it could run code as the node.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType
from typing import Any

from mm2.config.grammar.java_types import one_of_words
from mm2.config.keys.class_keys import ClassKey, is_own
from mm2.core.plugins import described

PAGE = "docs/how-to/extending.md"

_NAME = r"[^\W\d]\w*"
_IMPORT = re.compile(rf"(?P<module>{_NAME}(?:\.{_NAME})*):(?P<attribute>{_NAME})")
_CLOSE = 0.7  # matches MyFliter to MyFilter, but not any two classes that end in Filter
_JAVA_CLOSE = 0.9  # the class names of one Java package have long common prefixes


class ClassProblem(Exception):
    """The class cannot be loaded, or does not have the methods that its key requires; with ``rule`` and ``fix``."""

    def __init__(self, rule: str, fix: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.fix = fix


def load(import_string: str) -> Any:
    """Return the built-in object at ``import_string``, ``module:name``."""
    module, _, name = import_string.partition(":")
    return getattr(import_module(module), name)


def load_own(text: str, key: ClassKey, directory: Path) -> type[Any]:
    """Return the user's class ``text``, ``module:Class``; ``directory`` is that of the file. Raises ClassProblem.

    The module is imported, so its code runs. Exceptions that it raises are turned into ClassProblem.
    """
    match = _IMPORT.fullmatch(text)
    if match is None:
        raise _not_an_import_string(text, key)
    module = _module(match["module"], directory)
    own = _attribute(module, match["attribute"], key)
    _check_methods(own, key)
    return own


def _not_an_import_string(text: str, key: ClassKey) -> ClassProblem:
    short_names = {name.rpartition(".")[2]: name for name in key.built_in}
    if text in short_names:
        return ClassProblem("must be the full name of the class", f"write {short_names[text]}")
    if close := get_close_matches(text, (*key.built_in, *short_names), n=1, cutoff=_JAVA_CLOSE):
        return ClassProblem("unknown class", f"did you mean {short_names.get(close[0], close[0])}?")
    if is_own(text):
        return ClassProblem("must have the form module:Class", f"write it as in my.module:MyClass ({PAGE})")
    return ClassProblem(
        "not a built-in class, and other Java classes cannot be loaded",
        f"write {one_of_words((*key.built_in, f'{key.noun} in Python as module:Class'))} ({PAGE})",
    )


def _module(name: str, directory: Path) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        raise _missing(error.name, directory) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _missing(name: str, directory: Path) -> ClassProblem:
    rule = f"module {name} not found: it is neither installed nor on PYTHONPATH"
    first = name.partition(".")[0]
    if (directory / f"{first}.py").is_file() or (directory / first).is_dir():
        return ClassProblem(
            f"{rule}, and the directory of this file is not searched",
            "add the directory of this file to PYTHONPATH",
        )
    return ClassProblem(rule, f"install {name}, or add its directory to PYTHONPATH")


def _broken(name: str, error: BaseException) -> ClassProblem:
    return ClassProblem(f"module {name} cannot be imported: it raised {described(error)}", f"correct {name}")


def _attribute(module: ModuleType, name: str, key: ClassKey) -> type[Any]:
    public = {known: found for known, found in vars(module).items() if not known.startswith("_")}
    classes = {known: found for known, found in public.items() if isinstance(found, type)}
    found = getattr(module, name, None)
    if found is None:
        raise ClassProblem(
            f"class not found: module {module.__name__} has no {name}",
            _other_class(module, name, classes, key),
        )
    if not isinstance(found, type):
        raise ClassProblem(f"{module.__name__}.{name} is not a class", _other_class(module, name, classes, key))
    return found


def _other_class(module: ModuleType, name: str, classes: dict[str, type[Any]], key: ClassKey) -> str:
    if close := get_close_matches(name, classes, n=1, cutoff=_CLOSE):
        return f"did you mean {module.__name__}:{close[0]}?"
    suitable = [known for known, found in classes.items() if all(hasattr(found, method) for method in key.methods)]
    return f"use {key.noun} of the module: {', '.join(suitable)}" if suitable else f"add {name} to {module.__name__}"


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
            f"the class is not {key.noun}: it has no {', '.join(lacking)}",
            f"add the missing methods, or inherit from {base} ({PAGE})",
        )
    if key.asynchronous and not issubclass(own, load(key.base)):
        raise ClassProblem(
            f"the class is not {key.noun}: it does not inherit from {base}", f"inherit from {base} ({PAGE})"
        )
    wrong = [name for name, method in methods.items() if iscoroutinefunction(method) is not key.asynchronous]
    if wrong:
        must, definition = ("must be async", "async def") if key.asynchronous else ("must not be async", "def")
        raise ClassProblem(f"{', '.join(wrong)} {must}", f"define {', '.join(wrong)} with {definition} ({PAGE})")
