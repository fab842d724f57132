"""The programs that the engines run, each in a virtual environment of its own. Nothing here imports `bench`."""
