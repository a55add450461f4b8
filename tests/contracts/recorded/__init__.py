"""Real engines as they were recorded, played back over a real socket."""
