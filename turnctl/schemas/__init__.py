"""The JSON that the command line gives, one schema for each name that an object has in ``schema``."""
