"""``reorg`` and its gradient, computed with reshapes and transposes. The gradient moves elements back.

Only ``backward`` reads a shape. In MXNet's reshape, 0 keeps a size, -3 joins two sizes, and -4 splits a size into the
next two.
"""
from ...backends.emitter import Array


def forward(F, attrs, data: Array) -> Array:
    s = attrs.stride
    if attrs.reverse:
        return _depth_to_space(F, data, s, attrs.mode)
    if attrs.mode == "darknet":
        return _space_to_darknet(F, data, s)
    return _space_to_depth(F, data, s, attrs.mode)


def _space_to_depth(F, data, s, mode):
    blocks = F.reshape(data, shape=(0, 0, -4, -1, s, -4, -1, s))            # B, C, H/s, dy, W/s, dx
    if mode == "CRD":
        depth = F.transpose(blocks, axes=(0, 1, 3, 5, 2, 4))                # B, C, dy, dx, H/s, W/s
    else:
        depth = F.transpose(blocks, axes=(0, 3, 5, 1, 2, 4))                # B, dy, dx, C, H/s, W/s
    depth = F.reshape(depth, shape=(0, -3, 0, 0, 0))
    return F.reshape(depth, shape=(0, -3, 0, 0))                            # B, C*s*s, H/s, W/s


def _space_to_darknet(F, data, s):
    quarters = F.reshape(data, shape=(0, -4, -1, s * s, 0, 0))              # B, C/s/s, s*s, H, W: C is divisible
    data = F.reshape(quarters, shape=(0, -3, 0, 0))                         # B, C, H, W
    rows = F.reshape(data, shape=(0, -3, 0))                                # B, C*H, W
    blocks = F.reshape(rows, shape=(0, -4, -1, s * s, -4, -1, s))           # B, Q, s*s, W/s, dx; Q = C*H/(s*s)
    blocks = F.reshape(blocks, shape=(0, 0, -4, s, s, 0, 0))                # B, Q, dy, r, W/s, dx
    moved = F.transpose(blocks, axes=(0, 2, 5, 1, 3, 4))                    # B, dy, dx, Q, r, W/s
    moved = F.reshape(moved, shape=(0, -3, -3, 0))                          # B, s*s, Q*s, W/s
    rows = F.reshape(moved, shape=(0, -3, 0))                               # B, C*s*H, W/s

    # C*s*H has to be split into C*s*s and H/s. A small tensor with these sizes gives the sizes to reshape_like.
    column = F.slice(data, begin=(0, 0, 0, 0), end=(1, None, None, 1), step=(1, 1, s, 1))   # 1, C, H/s, 1
    sizes = F.BlockGrad(F.tile(column, reps=(1, s * s, 1, 1)))              # 1, C*s*s, H/s, 1
    return F.reshape_like(rows, sizes, lhs_begin=1, lhs_end=2, rhs_begin=1, rhs_end=3)


def _depth_to_space(F, data, s, mode):
    if mode == "CRD":
        depth = F.reshape(data, shape=(0, -4, -1, s * s, 0, 0))             # B, C/s/s, s*s, H, W
        depth = F.reshape(depth, shape=(0, 0, -4, s, s, 0, 0))              # B, C/s/s, dy, dx, H, W
        blocks = F.transpose(depth, axes=(0, 1, 4, 2, 5, 3))                # B, C/s/s, H, dy, W, dx
    else:
        depth = F.reshape(data, shape=(0, -4, s * s, -1, 0, 0))             # B, s*s, C/s/s, H, W
        depth = F.reshape(depth, shape=(0, -4, s, s, 0, 0, 0))              # B, dy, dx, C/s/s, H, W
        blocks = F.transpose(depth, axes=(0, 3, 4, 1, 5, 2))                # B, C/s/s, H, dy, W, dx
    return F.reshape(blocks, shape=(0, 0, -3, -3))                          # B, C/s/s, H*s, W*s


def backward(nd, attrs, shapes, output_grad) -> dict:
    s = attrs.stride
    if attrs.reverse:
        grad = _space_to_depth(nd, output_grad, s, attrs.mode)
    else:
        if attrs.mode == "darknet":   # its order is DCR of the same memory, read as an image of the data's size
            output_grad = output_grad.reshape(shapes["data"])
        grad = _depth_to_space(nd, output_grad, s, attrs.mode)
    return {"data": grad.reshape(shapes["data"])}
