"""MuJoCo's functions and memory, and arrays in general, by address: for compiled kernels."""
