"""May you now: limits that are reserved before, settled after, and never miscounted."""
