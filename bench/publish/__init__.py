"""The whole suite, and the pages that show its results. `python -m bench.publish --help` says how."""
