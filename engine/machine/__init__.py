"""What this machine is and has: memory, processors, bandwidth."""
