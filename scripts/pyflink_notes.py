"""What is said about names of PyFlink that are different or absent here: patterns of paths, the first match counts."""

ABSENT: dict[str, str] = {}

DIFFERENT: dict[str, str] = {}
