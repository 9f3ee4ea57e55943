"""Speed over ranks: measured on this machine, simulated beyond."""
