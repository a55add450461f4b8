"""What an engine is to the door: the wire format, one adapter an engine, capacity arithmetic, load generator."""
