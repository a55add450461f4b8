"""What door and engine say of themselves in one and the same form: spans, and lines of the log."""
