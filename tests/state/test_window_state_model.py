"""A state whose namespaces are shared by many keys, such as windows, against plain dictionaries."""

from typing import Any

from hypothesis import settings

from penstock.codec.columns import decode_column, encode_column
from penstock.state.backend.keyed_backend import KeyedBackend
from tests.state.test_backend_model import PAIR, WINDOW, NamespacedMachine, descriptors


class WindowsMachine(NamespacedMachine):
    """The values of many keys are accessed by namespace."""

    def many_values(self, backend: KeyedBackend) -> Any:
        return backend.namespace_values(descriptors()["columns"], WINDOW)  # type: ignore[arg-type]

    def columns_put(self, values: dict[str, Any]) -> None:
        """A None for every key of a namespace removes the namespace."""
        current = self.key
        for window in {self.address(key)[1] for key in values}:
            own = [(self.address(key)[0], value) for key, value in values.items() if self.address(key)[1] == window]
            keys = [key for key, _ in own]
            before = [self.model["columns"].get((key, window)) for key in keys]
            assert repr(decode_column(self.many.get(window, keys), PAIR)) == repr(before)
            everything, found = self.many.entries(window)
            known = {key: value for (key, name), value in self.model["columns"].items() if name == window}
            assert repr(dict(zip(everything, decode_column(found, PAIR), strict=True))) == repr(
                {key: known[key] for key in everything}
            )
            if all(value is None for _, value in own):
                self.many.remove(window, everything)
                own = [(key, None) for key in known]
            else:
                self.many.put(window, keys, encode_column([value for _, value in own], PAIR))
            for key, value in own:
                self.key = (key, window)
                self.put("columns", value)
        self.key = current


TestWindows = WindowsMachine.TestCase
TestWindows.settings = settings(stateful_step_count=15, max_examples=settings().max_examples // 4)
