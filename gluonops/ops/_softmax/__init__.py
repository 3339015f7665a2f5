"""Parts shared by the softmax operators: rows of classes along an axis."""
