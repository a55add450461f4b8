"""What goes on at this moment and went on in the last minutes, of all gateways together."""
