"""Reader of YAML for Kubernetes manifests, on the nodes of PyYAML's BaseLoader: scalars stay text, so ``yes`` is "yes".

Only `mm2.config.checks.foreign.kubernetes` imports it, and PyYAML with it, for a manifest in YAML. Aliases are
refused, because a few lines of them can stand for gigabytes, and so is what would make a value a guess: tags, merge
keys and a key that occurs twice.
"""

from __future__ import annotations

import yaml
from yaml.reader import ReaderError

from mm2.config.checks.foreign.tree import UnreadableYaml

_MOST_LEVELS = 100
"""Of nesting. A manifest has about ten; PyYAML and this reader take a few calls for each."""

_NULL = ("", "~", "null", "Null", "NULL")
_MERGE = "<<"
_DEFAULT_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


def read_yaml(text: str) -> object:
    """Return the one document in ``text``: text, None, lists and dictionaries. Raises UnreadableYaml."""
    try:
        node = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnreadableYaml(mark.line + 1 if mark else 1, "not valid YAML") from error
    except ReaderError as error:
        raise UnreadableYaml(text.count("\n", 0, error.position) + 1, "a control character") from error
    except UnreadableYaml:
        raise
    except (ValueError, OverflowError) as error:  # PyYAML does not check escapes and versions
        raise UnreadableYaml(1, "a number that is too large") from error
    return None if node is None else _value(node)


class _Loader(yaml.BaseLoader):
    """Refuses aliases and deep nesting before it composes their nodes."""

    _levels = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        line = self.current_event.start_mark.line + 1
        if is_alias:
            raise UnreadableYaml(line, "an alias")
        if self._levels == _MOST_LEVELS:
            raise UnreadableYaml(line, f"more than {_MOST_LEVELS} levels")
        self._levels += 1
        node = super().compose_node(parent, index)
        self._levels -= 1
        return node


def _value(node: yaml.Node) -> object:
    line = node.start_mark.line + 1
    if node.tag not in _DEFAULT_TAGS:
        raise UnreadableYaml(line, "a tag")
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    if isinstance(node, yaml.ScalarNode):
        return None if node.style is None and node.value in _NULL else node.value
    found: dict[str, object] = {}
    for key_node, value_node in node.value:
        key = _value(key_node)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str) or key == _MERGE:
            raise UnreadableYaml(line, "a key that is not text")
        if key in found:
            raise UnreadableYaml(line, "a key that occurs twice")
        found[key] = _value(value_node)
    return found
