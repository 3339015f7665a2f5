"""What the commands do that need the package; ``cli.py`` parses their arguments."""
