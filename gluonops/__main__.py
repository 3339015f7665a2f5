"""``python -m gluonops``: the command ``gluonops``."""
import sys

from .cli import main

sys.exit(main())
