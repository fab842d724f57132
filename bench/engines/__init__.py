"""One module per engine, each with one `ENGINE`. A new file here is a new engine."""
