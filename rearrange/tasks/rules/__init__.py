"""What is asked in an episode, what a step is worth, and when it is done."""
