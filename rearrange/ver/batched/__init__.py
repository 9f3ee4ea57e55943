"""Rollouts from one vector environment in this process: `mode=batched`."""
