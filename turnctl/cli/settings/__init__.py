"""Settings from files: where they are looked for, what they may say, and what comes of that for a command."""
