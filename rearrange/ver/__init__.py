"""The trainer: VER and its baselines, for any Gymnasium environment and any recurrent policy."""
