"""From a rollout to new weights: packing, returns, losses, optimiser steps."""
