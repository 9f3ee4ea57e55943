"""What all rooms stand on: whole files, checked JSON, locks, signals, the machine."""
