"""The commands. ``cli.py`` has their arguments; each runs in a file of its own."""
