"""/v1/responses as chat and back, the same for every engine. Pure: knows no engine, no quota and no socket."""
