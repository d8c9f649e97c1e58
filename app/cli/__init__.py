"""The `mlxr` command: one module per subcommand, and what they share."""
