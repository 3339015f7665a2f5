"""What the activations share: functions of single elements, and how tensors are taken through them."""
