"""The command line: ``turnctl COMMAND``, one command per file, each loaded when it is called."""
