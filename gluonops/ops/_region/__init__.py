"""What the operators on YOLOv2's map share."""
