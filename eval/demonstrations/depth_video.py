"""Depth as lossless video: 12-bit grey HEVC, one code per pixel (`demonstration.to_codes`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.eval.demonstrations.demonstration import FPS

PIXELS = "gray12le"
GOP = 2  # frames from one that stands alone to the next: who trains reads them in any order
_TICKS = 15360 // FPS  # a frame's, in mp4's usual time base for whole rates up to 60
_TIME_BASE = Fraction(1, 15360)
# pools and frame-threads: one thread, as each worker has; no B frames: each is decoded in turn.
_X265 = "lossless=1:bframes=0:pools=none:frame-threads=1:log-level=error"


def write_video(codes: np.ndarray, path: Path, is_full_range: bool = False) -> None:
    """Codes [T, H, W] uint16 -> mp4. Lossless: `read_video` gives them back.

    Args:
        is_full_range: says that 0 is black and 4095 white, for who knows pictures of 8 bits only.
    """
    import av

    height, width = codes.shape[1:]
    parameters = f"{_X265}:range=full" if is_full_range else _X265
    options = {"x265-params": parameters, "preset": "ultrafast"}
    with av.open(str(path), "w", format="mp4") as file:
        stream: Any = file.add_stream("libx265", rate=FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, PIXELS
        stream.gop_size, stream.time_base = GOP, _TIME_BASE
        for number, picture in enumerate(codes):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format=PIXELS)
            frame.pts, frame.time_base = number * _TICKS, _TIME_BASE
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))


def read_video(path: Path) -> Iterator[np.ndarray]:
    """The pictures in turn, [H, W] uint16."""
    import av

    with av.open(str(path)) as file:
        for frame in file.decode(video=0):
            yield frame.to_ndarray(format=PIXELS)


def join_videos(parts: Sequence[Path], lengths: Sequence[int], path: Path) -> None:
    """One video of several, as they are, without encoding again.

    Args:
        parts: of `write_video`, of pictures of the same size.
        lengths: their frames.
    """
    import av

    with av.open(str(path), "w", format="mp4") as file:
        stream: Any = None
        begin = 0
        for part, length in zip(parts, lengths, strict=True):
            with av.open(str(part)) as one:
                source = one.streams.video[0]
                if stream is None:
                    stream = file.add_stream_from_template(source)
                    stream.time_base = source.time_base
                for packet in one.demux(source):
                    if packet.dts is None:
                        continue  # the end
                    packet.pts += begin * _TICKS
                    packet.dts += begin * _TICKS
                    packet.stream = stream
                    file.mux(packet)
            begin += length
