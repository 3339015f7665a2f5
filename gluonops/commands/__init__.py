"""The commands. ``cli.py`` defines their arguments, and each command runs in a module of its own."""
