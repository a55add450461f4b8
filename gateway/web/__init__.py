"""Pages for people: built here, served by api. No script, no build step, nothing fetched from elsewhere."""
