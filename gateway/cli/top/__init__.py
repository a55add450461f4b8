"""`sekisho top`: the gateway's activity on a terminal. command.py runs it: client > rows > state > screen."""
