"""Parts shared by the losses of a sigmoid: one for every element, with a label for it."""
