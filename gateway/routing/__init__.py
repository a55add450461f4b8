"""Which engine."""
