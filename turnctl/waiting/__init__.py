"""Checkpoints: the ways in which a turn may block and still be stopped at once."""
