"""The data model: types, rows, time, state descriptors and handles, functions, keys, configuration."""
