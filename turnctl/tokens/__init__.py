"""The signal: tokens, turns, sessions, and how a turn ends."""
