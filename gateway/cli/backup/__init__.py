"""`sekisho backup` and `sekisho restore`: all that must survive, in one file (archive.py), and back."""
