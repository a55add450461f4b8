"""OpenID Connect providers: where they are, which keys they sign with, whether a token of theirs is good."""
