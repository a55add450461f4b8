"""The OpenAI wire format, defined once for the door and the engine: requests, responses, errors, SSE."""
