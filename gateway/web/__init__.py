"""Pages for people: built here, served by api. No build step, nothing fetched from elsewhere."""
