"""Speed over ranks: measured here, simulated beyond."""
