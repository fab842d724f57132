"""The registration of the HashMap backend."""

from dataclasses import dataclass
from typing import ClassVar

from penstock.state.backend.backend_place import BackendPlace
from penstock.state.backend.backend_spec import BackendSpec
from penstock.state.heap.hashmap_backend import HashMapBackend


@dataclass(frozen=True)
class HashMapSpec(BackendSpec):
    """Live Python objects in the memory of the TaskManager. It has no settings."""

    name: ClassVar[str] = "hashmap"
    class_name: ClassVar[str] = "HashMapStateBackend"

    def open(self, place: BackendPlace) -> HashMapBackend:
        return HashMapBackend(place)
