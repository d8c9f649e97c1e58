"""What steps will take on this machine, learned from those that ran, and told before a request is sent."""
