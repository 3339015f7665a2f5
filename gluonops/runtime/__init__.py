"""What MXNet 1.9.1 needs to run here. Nothing in this folder imports the rest of the package, and only
``importing.py`` imports MXNet.
"""
