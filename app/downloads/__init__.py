"""Models from a Hugging Face hub: planned, fetched, verified, and put into the Hugging Face cache."""
