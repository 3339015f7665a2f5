"""Makes the input of a net from images and boxes.

``letterbox`` is Darknet's resize and letterbox, bit for bit, and ``augment`` is Darknet's augmentation. OpenCV's and
gluoncv's functions compute other numbers, so they cannot replace ours. ``pipeline`` makes items and batches.
"""
