"""The one stateful service: the Redis connection, its scripts, and the list of its keys."""
