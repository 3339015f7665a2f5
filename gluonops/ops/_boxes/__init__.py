"""What the operators on boxes share: the overlap of two boxes, and the losses of one that is regressed to another."""
