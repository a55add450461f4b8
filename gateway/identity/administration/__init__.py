"""What administrators do, once for the admin API and the command line. Checks no right: its callers have done that."""
