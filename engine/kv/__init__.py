"""KV memory: the pager owns which page is whose, the arena owns the arrays the pages live in."""
