"""Our tasks in habitat-lab, in its own Python: numpy and habitat alone, Python 3.9."""
