"""Films of episodes: frames, video files, the page in a browser."""
