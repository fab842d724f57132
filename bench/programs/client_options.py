"""The options of a client that runs beside workload W1, and how far W1 is."""

import argparse
from pathlib import Path

from epoch_log import Progress


def parse_client(parser: argparse.ArgumentParser | None = None) -> tuple[argparse.Namespace, Progress]:
    """What the benchmark gives to every client, and the options that `parser` has already."""
    parser = parser or argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--warmup-batches", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True, help="that W1 reads in all")
    parser.add_argument("--result", type=Path, required=True, help="the JSON file that the client leaves")
    args = parser.parse_args()
    return args, Progress(args.events, args.warmup_batches, args.rows)
