"""Videos of episodes: frames, video files, the browser page."""
