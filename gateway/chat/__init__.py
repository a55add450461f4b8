"""The employees' chat: conversations that are kept, answers that go on while nobody looks, shared templates."""
