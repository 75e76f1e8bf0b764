"""Trying out how a program stops: run again and again, each time stopped at another place."""
