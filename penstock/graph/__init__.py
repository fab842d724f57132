"""StreamGraph to JobGraph to ExecutionGraph: uids, chaining, stages, owners."""
