"""Units of sizes in bytes, and of times."""

KIB = 1024
MIB = 1024 * KIB
NANOSECONDS_PER_MS = 1_000_000
