"""Moved to store.lookup."""

from gateway.store.lookup import Lookup

__all__ = ["Lookup"]
