"""The Hugging Face Hub as the app sees it: search, one repository, what of it to download, the token."""
