"""A package, so that tests/gateway and the like can never hide the packages they test."""
