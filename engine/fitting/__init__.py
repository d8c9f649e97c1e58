"""What models need, by their headers alone, and whether it fits."""
