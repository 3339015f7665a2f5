"""Parts shared by the operators on YOLOv2's output map, (batch, anchors * (5 + classes), height, width)."""
