"""The stand-in's spaces: no `start`, and strict about what they contain."""

import numpy as np


class Box:
    def __init__(self, low, high, shape, dtype):
        self.low, self.high = np.full(shape, low, dtype), np.full(shape, high, dtype)
        self.shape, self.dtype = shape, np.dtype(dtype)

    def contains(self, x):
        is_array = isinstance(x, np.ndarray) and x.dtype == self.dtype and x.shape == self.shape
        return is_array and bool((x >= self.low).all() and (x <= self.high).all())


class Discrete:
    shape, dtype = (), np.dtype(np.int64)

    def __init__(self, n):
        self.n = n

    def contains(self, x):
        return isinstance(x, int) and 0 <= x < self.n


class Dict:
    shape, dtype = None, None

    def __init__(self, spaces):
        self.spaces = spaces

    def contains(self, x):
        return x.keys() == self.spaces.keys() and all(
            space.contains(x[name]) for name, space in self.spaces.items()
        )


class Text:
    shape, dtype = (), np.dtype(str)
