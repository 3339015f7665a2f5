"""What the operators of the softmax family share: rows of classes along an axis."""
