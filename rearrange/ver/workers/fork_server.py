"""Imported only by the fork server, which ends when the process it serves is gone.

It then removes the folder of its socket: a process that was killed could not.
"""

import atexit
import os
import shutil
from multiprocessing import forkserver

from rearrange.ver.workers.forking import FOLDER_NAME


def _remove_folder() -> None:
    address = getattr(forkserver._forkserver, "_forkserver_address", None)
    folder = os.path.dirname(address) if isinstance(address, str) else ""
    if FOLDER_NAME.fullmatch(os.path.basename(folder)):
        shutil.rmtree(folder, ignore_errors=True)


atexit.register(_remove_folder)  # forked workers leave without these
