"""The commands that need the package. ``cli.py`` parses their arguments."""
