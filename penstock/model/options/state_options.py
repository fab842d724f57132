"""Options of state backends that do not belong to one backend alone, and of the cleanup of expired state."""

from penstock.model.option import Option
from penstock.model.option_types import Integer, Milliseconds, Text

PREFIX = "state.backend."

BACKEND = Option(
    PREFIX + "type",
    Text(),
    "hashmap",
    "The state backend: `hashmap` keeps working state in memory, `rocksdb` on local disk. The keys of a backend of "
    "your own begin with `state.backend.<type>.`.",
    old_keys=("state.backend",),
)
SWEEP_ENTRIES = Option(
    "penstock.state.ttl.sweep-entries",
    Integer(least=0, too_small="give a positive interval, and entries = 0 to switch the sweep off"),
    50_000,
    "How many entries of each state with a time to live one sweep for expired entries looks at. 0: no sweeps.",
)
SWEEP_INTERVAL = Option(
    "penstock.state.ttl.sweep-interval",
    Milliseconds(least=1, too_small="give a positive interval, and entries = 0 to switch the sweep off"),
    5_000,
    "Minimum time between two sweeps of a state.",
)
