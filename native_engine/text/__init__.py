"""Tokens to text as they come: whole characters only, and never a part of a stop string."""
