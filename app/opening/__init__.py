"""What is opened from outside: links, chat files and models, from whichever way they come."""
