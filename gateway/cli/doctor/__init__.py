"""`sekisho doctor`: what is wrong on this machine, and how to mend it; a module for each thing that is looked at."""
