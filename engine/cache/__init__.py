"""What requests find in KV memory, and why there is not more."""
