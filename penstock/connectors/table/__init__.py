"""What the sinks of table formats share: columns, schema evolution, addresses and options."""
