"""What MXNet 1.9.1 needs to run here. Nothing in this folder imports MXNet or the rest of the package."""
