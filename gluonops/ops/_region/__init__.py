"""Parts shared by the operators on YOLOv2's output map."""
