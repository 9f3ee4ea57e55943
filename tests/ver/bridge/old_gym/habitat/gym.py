"""Registers an environment whose `reset` takes any keyword, and overlooks a seed."""

from gym import SPECS, Counting, Spec


class Wrapped(Counting):
    def reset(self, *args, return_info=False, **kwargs):
        return super().reset()


SPECS["HabitatPick-v0"] = Spec("HabitatPick-v0", Wrapped)
