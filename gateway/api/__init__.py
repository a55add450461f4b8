"""HTTP handlers, thin: bytes to a request, a result to bytes."""
