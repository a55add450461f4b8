"""The native CPU library and the programs recorded for it."""
