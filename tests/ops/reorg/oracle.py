"""reorg: blocks of stride x stride pixels move into channels, index by index."""
import numpy as np


def small_index(mode, stride, channels, height, width):
    """Return the position (channel, y, x) in the small image of each element of the large image: three arrays."""
    channel, y, x = np.indices((channels, height, width))
    block = (y % stride) * stride + x % stride
    if mode == "CRD":
        small_channel = channel * stride * stride + block
    else:
        small_channel = block * channels + channel
    return small_channel, y // stride, x // stride


def to_small(mode, stride, large):
    """Space to depth, for mode DCR or CRD."""
    batch, channels, height, width = large.shape
    small = np.empty((batch, channels * stride * stride, height // stride, width // stride), large.dtype)
    small_channel, y, x = small_index(mode, stride, channels, height, width)
    small[:, small_channel, y, x] = large
    return small


def to_large(mode, stride, small):
    """Depth to space, for mode DCR or CRD."""
    _, channels, height, width = small.shape
    small_channel, y, x = small_index(mode, stride, channels // (stride * stride), height * stride, width * stride)
    return small[:, small_channel, y, x]


def move(attrs, data):
    """Return the output. It has the elements of ``data`` in another order."""
    stride = attrs.stride
    if attrs.reverse:
        mode = "CRD" if attrs.mode == "CRD" else "DCR"
        return to_large(mode, stride, data)
    if attrs.mode != "darknet":
        return to_small(attrs.mode, stride, data)

    # Darknet reads the memory as a larger image with fewer channels, applies DCR, and reads the result as the output.
    batch, channels, height, width = data.shape
    larger = data.reshape(batch, channels // (stride * stride), height * stride, width * stride)
    moved = to_small("DCR", stride, larger)
    return moved.reshape(batch, channels * stride * stride, height // stride, width // stride)


def forward(attrs, data):
    return {"output": move(attrs, data)}


def backward(attrs, head, data):
    """Move the indices of the elements. The moved indices say which element each gradient belongs to."""
    numbers = move(attrs, np.arange(data.size).reshape(data.shape))
    gradient = np.empty(data.size)
    gradient[numbers.ravel()] = head.ravel()
    return {"data": gradient.reshape(data.shape)}
