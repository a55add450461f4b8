"""Answers that must have a form: from a grammar to the tokens that may come next."""
