"""What was used, and by whom."""
