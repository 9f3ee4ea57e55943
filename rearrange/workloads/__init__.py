"""Small environments for tests and benchmarks: masked, slow, faulty ones, a chain of gates."""
