"""The command line: one file a command. Everything that needs torch is imported inside the command that needs it."""
