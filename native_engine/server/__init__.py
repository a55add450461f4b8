"""The engine's own HTTP face: OpenAI paths over a Unix socket or a loopback port. For the door, not for users."""
