"""Small environments for tests and benchmarks: masked, slow and faulty ones, a chain of gates."""
