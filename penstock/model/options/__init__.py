"""All configuration options, a module for each subject. `catalogue` puts them together."""
