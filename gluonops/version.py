"""The version and the address of the repository. Both stand here alone: setup.py and docs/conf.py read this file."""
__version__ = "1.0.0"
REPOSITORY = ""   # such as https://github.com/OWNER/gluonops; while it is empty, no page and no metadata has a link
