"""The same skills and episodes in stock habitat-lab, in a Python of its own."""
