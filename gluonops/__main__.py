"""``python -m gluonops``: the command ``gluonops``."""
import sys

from .commands.cli import main

sys.exit(main())
