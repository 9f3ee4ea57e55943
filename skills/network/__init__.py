"""The skill policy's network: encoder, memory, heads."""
