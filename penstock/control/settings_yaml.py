"""The text of a configuration file: YAML with nested or dotted keys."""

import yaml

from penstock.errors import ConfigurationError

MAX_DEPTH = 20
_SCALARS = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "timestamp", "value"))
_NULL = "tag:yaml.org,2002:null"


def parse_yaml(text: str, name: str) -> tuple[dict[str, str], dict[str, int]]:
    """The settings in a text and the line of each key. `name` is the file's name in messages."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        place, problem = name, str(error)
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            place, problem = f"{name}, line {error.problem_mark.line + 1}", str(error.problem)
        raise ConfigurationError(f"{place}: this is not valid YAML: {problem}") from error
    file = _File(name)
    if root is not None and root.tag != _NULL:
        if not isinstance(root, yaml.MappingNode):
            raise ConfigurationError(f"{name} does not hold settings; write lines such as 'key: value'")
        file.add(root, "", 0)
    return file.settings, file.lines


class _File:
    """Collects settings while it walks through the nodes of a file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.settings: dict[str, str] = {}
        self.lines: dict[str, int] = {}

    def add(self, mapping: yaml.MappingNode, prefix: str, depth: int) -> None:
        """Add the settings of a mapping, with `prefix` in front of their keys."""
        if depth > MAX_DEPTH:
            raise self._problem(mapping, f"{prefix!r} is nested more than {MAX_DEPTH} levels deep")
        for key_node, value_node in mapping.value:
            key = prefix + self._scalar(key_node, "a key")
            if isinstance(value_node, yaml.MappingNode):
                self.add(value_node, f"{key}.", depth + 1)
                continue
            if key in self.settings:
                raise self._problem(key_node, f"{key} is set before, in line {self.lines[key]}")
            self.settings[key] = self._value(value_node, key)
            self.lines[key] = key_node.start_mark.line + 1

    def _value(self, node: yaml.Node, key: str) -> str:
        if isinstance(node, yaml.SequenceNode):
            return ";".join(self._scalar(entry, f"an entry of {key}") for entry in node.value)
        return self._scalar(node, key)

    def _scalar(self, node: yaml.Node, what: str) -> str:
        if node.tag == _NULL:
            raise self._problem(node, f"{what} has no value")
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _SCALARS:
            raise self._problem(node, f"{what} is not text, a number or a boolean")
        return str(node.value)

    def _problem(self, node: yaml.Node, text: str) -> ConfigurationError:
        return ConfigurationError(f"{self._name}, line {node.start_mark.line + 1}: {text}")
