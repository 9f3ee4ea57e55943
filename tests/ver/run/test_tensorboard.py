"""What TensorBoard's own reader finds: settings as hyper-parameters, and films."""

import json

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from rearrange.ver.run.metrics import RunLog
from rearrange.ver.run.tensorboard import Film, flat

SETTINGS = {"mode": "ver", "ppo": {"learning_rate": 3e-4}, "sizes": [1, 2], "none": None}
GIF = b"GIF89a" + bytes(20)


def test_settings_and_films_stand_beside_the_numbers(tmp_path):
    with RunLog(tmp_path, 100, is_quiet=True, settings=SETTINGS) as log:
        log.update({"validation/success": 0.5}, 64)
        log.show_film(Film("validation/episode", GIF, 40, 30), 64)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    (image,) = events.Images("validation/episode")
    assert (image.step, image.width, image.height) == (64, 40, 30)
    assert image.encoded_image_string == GIF
    content = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    found = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams
    assert found["mode"].string_value == "ver"
    assert found["ppo.learning_rate"].number_value == 3e-4
    assert found["sizes"].string_value == json.dumps(SETTINGS["sizes"])


def test_nested_settings_get_a_dot():
    assert flat({"a": {"b": {"c": True}}, "d": None}) == {"a.b.c": True, "d": "none"}
