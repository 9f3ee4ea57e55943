"""The compiled model and its copies."""

import mujoco
import numpy as np

from rearrange.sim.model import build_spec, new_model


def test_worlds_of_a_process_have_equal_models_of_their_own():
    def content(model):
        buffer = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
        mujoco.mj_saveModel(model, None, buffer)
        return buffer.tobytes()

    model, other = new_model(), new_model()
    assert content(model) == content(other) == content(build_spec().compile())
    model.geom_size[0] = 7.0
    assert content(other) == content(new_model()) != content(model)
