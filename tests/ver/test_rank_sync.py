"""What ranks agree on when something happens at an awkward moment."""

import signal

from rearrange.system.stop_signals import StopSignals
from rearrange.ver.rank_sync import RankSync
from rearrange.ver.ranks.distributed import RankInfo, Ranks
from rearrange.ver.trainer_cfg import TrainerCfg


class Asked(Ranks):
    """One of two ranks; a signal comes as soon as it has said that there was none."""

    def __init__(self, stop):
        super().__init__(RankInfo(0, 2), store=object())
        self.stop = stop

    def gather(self, value):
        self.stop.request(signal.SIGTERM)
        return [value, None]

    def any(self, is_true):
        return is_true

    def _count(self, name, more):
        return 0


def test_a_signal_while_ranks_agree_stops_all_of_them_the_next_time():
    stop = StopSignals()
    sync = RankSync(Asked(stop), TrainerCfg(), stop)
    assert not sync.agree_on_stop()  # which the other rank takes for the answer
    assert sync.should_stop() and sync.agree_on_stop()
