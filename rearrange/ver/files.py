"""The names under which this package has known `rearrange.files` and `strict_json`."""

from rearrange.checked_json import strict_json
from rearrange.files import UNFINISHED, remove_unfinished, sync_folder, write_whole_file

__all__ = ["UNFINISHED", "remove_unfinished", "strict_json", "sync_folder", "write_whole_file"]
