"""What ``turnctl doctor`` looks at, an area in each module."""
