"""What makes a net's input of images and boxes.

``letterbox`` is Darknet's resize and letterbox, bit for bit, and ``augment`` is Darknet's augmentation. OpenCV's and
gluoncv's functions compute other numbers, so these stay ours. ``pipeline`` makes items and batches of them.
"""
