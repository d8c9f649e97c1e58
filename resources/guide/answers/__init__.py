"""What the guide says, by subject."""
