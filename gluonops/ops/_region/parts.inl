// The parts of an image's loss, in the order of loss.py's PARTS. C++ and CUDA share this text.

enum Part { COORDINATES, OBJECTNESS, NO_OBJECTNESS, CLASS_PART, COST, IOU, RECALL, PROBABILITY, TRUTHS, PARTS };
