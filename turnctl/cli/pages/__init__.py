"""What is told of a command, once, for its help, its man page, the documents and JSON alike."""
