"""From the engine's bytes to the client's."""
