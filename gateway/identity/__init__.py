"""Who is asking."""
