"""The console's verbs for homes and episodes of other simulators."""
