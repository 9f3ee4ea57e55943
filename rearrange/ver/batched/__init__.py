"""Rollouts from one vector environment of this process: `mode=batched`."""
