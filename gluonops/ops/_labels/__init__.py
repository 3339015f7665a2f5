"""What the operators on class labels share: which labels are a class, and what the others do to their rows."""
