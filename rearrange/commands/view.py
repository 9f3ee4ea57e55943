"""`rearrange view`: a page in a browser, to play episodes, watch agents and look at sensors."""

from rearrange.configs.viewing import ViewCfg
from rearrange.eval.runner import check_name, check_split
from rearrange.eval.view.moments import setup
from rearrange.eval.view.painting import Painter
from rearrange.eval.view.replay import Evaluation, read_evaluation
from rearrange.eval.view.server import ViewServer
from rearrange.eval.view.session import Session
from rearrange.eval.view.stage import check_driver, options_of
from rearrange.sim.pictures.pictures import BACKENDS
from rearrange.system.files import user_path
from rearrange.system.outputs import prepare_folder


def run(cfg: ViewCfg) -> int:
    """Serves until Ctrl-C."""
    evaluation: Evaluation | None = None
    if cfg.run is not None:
        evaluation = read_evaluation(cfg)
        cfg = evaluation.cfg
        for change in evaluation.changes:
            print(f"{change} since this evaluation: episodes may go otherwise", flush=True)
    check_split(cfg.split, cfg.homes)
    check_driver(cfg)
    check_name("renderer", cfg.renderer, BACKENDS)
    options_of(cfg, cfg.index)
    if cfg.output is not None:
        folder = user_path(cfg.output)
        prepare_folder(folder if folder.exists() else folder.parent)
    server = ViewServer(cfg.port, setup(evaluation))
    painter: Painter | None = None
    try:
        session = Session(cfg, server, evaluation)
        print(f"open http://localhost:{server.port}/ in a browser; Ctrl-C ends", flush=True)
        painter = Painter(
            server, session.camera, session.lock, session.look, cfg.renderer, cfg.detail
        )
        session.run(lambda: painter.error is not None)
        if painter.error is not None:
            raise painter.error
    finally:
        server.close()
        if painter is not None:
            painter.close()
    return 0
