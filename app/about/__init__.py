"""What MLXR is: its version, its licences, and what is new in it."""
