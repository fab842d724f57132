"""Files that are written once."""

from penstock.storage.certain_put import put_certain
from penstock.storage.local import LocalStorage
from penstock.storage.memory import Fault, MemoryStorage, StorageScript
from penstock.storage.probe import probe_two_writers
from penstock.storage.storage import Storage, open_storage

__all__ = [
    "Fault",
    "LocalStorage",
    "MemoryStorage",
    "Storage",
    "StorageScript",
    "open_storage",
    "probe_two_writers",
    "put_certain",
]
