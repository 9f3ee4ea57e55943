"""Rules of the tasks: goals, rewards, and termination."""
