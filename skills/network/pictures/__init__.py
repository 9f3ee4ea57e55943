"""The pictures in the network: encoders of what the head camera sees."""
