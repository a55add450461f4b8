"""/chat/v1: what the chat page asks for. Everything is the asker's own; of others' nothing is known to exist."""
