"""Moved to store.directory."""

from gateway.store.directory import Actor, Directory

__all__ = ["Actor", "Directory"]
