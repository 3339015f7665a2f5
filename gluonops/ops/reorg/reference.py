"""``reorg`` out of reshapes and transposes, and its gradient.

``forward`` reads no shape: in MXNet's reshape 0 keeps a size, -3 joins two, -4 splits one. ``backward`` runs where
shapes are known and says what it does with numbers.
"""


def forward(F, attrs, data):
    s = attrs.stride
    if attrs.reverse:
        return _crd_to_space(F, data, s) if attrs.mode == "CRD" else _dcr_to_space(F, data, s)
    if attrs.mode == "darknet":
        return _darknet(F, data, s)
    blocks = F.reshape(data, shape=(0, 0, -4, -1, s, -4, -1, s))            # B, C, H/s, dy, W/s, dx
    if attrs.mode == "CRD":
        depth = F.transpose(blocks, axes=(0, 1, 3, 5, 2, 4))                # B, C, dy, dx, H/s, W/s
    else:
        depth = F.transpose(blocks, axes=(0, 3, 5, 1, 2, 4))                # B, dy, dx, C, H/s, W/s
    return F.reshape(F.reshape(depth, shape=(0, -3, 0, 0, 0)), shape=(0, -3, 0, 0))


def _darknet(F, data, s):
    rows = F.reshape(data, shape=(0, -3, 0))                                # B, C*H, W
    blocks = F.reshape(rows, shape=(0, -4, -1, s * s, -4, -1, s))           # B, Q, s*s, W/s, dx; Q = C*H/(s*s)
    blocks = F.reshape(blocks, shape=(0, 0, -4, s, s, 0, 0))                # B, Q, dy, r, W/s, dx
    moved = F.transpose(blocks, axes=(0, 2, 5, 1, 3, 4))                    # B, dy, dx, Q, r, W/s
    rows = F.reshape(F.reshape(moved, shape=(0, -3, -3, 0)), shape=(0, -3, 0))   # B, C*s*H, W/s
    # C*s*H is C*s*s times H/s, but not in order: a thin tensor of those sizes says where to cut.
    column = F.slice(data, begin=(0, 0, 0, 0), end=(1, None, None, 1), step=(1, 1, s, 1))   # 1, C, H/s, 1
    sizes = F.BlockGrad(F.tile(column, reps=(1, s * s, 1, 1)))              # 1, C*s*s, H/s, 1
    return F.reshape_like(rows, sizes, lhs_begin=1, lhs_end=2, rhs_begin=1, rhs_end=3)


def _dcr_to_space(F, data, s):
    depth = F.reshape(F.reshape(data, shape=(0, -4, s * s, -1, 0, 0)), shape=(0, -4, s, s, 0, 0, 0))
    blocks = F.transpose(depth, axes=(0, 3, 4, 1, 5, 2))                    # B, C/s/s, H, dy, W, dx
    return F.reshape(blocks, shape=(0, 0, -3, -3))


def _crd_to_space(F, data, s):
    depth = F.reshape(F.reshape(data, shape=(0, -4, -1, s * s, 0, 0)), shape=(0, 0, -4, s, s, 0, 0))
    blocks = F.transpose(depth, axes=(0, 1, 4, 2, 5, 3))                    # B, C/s/s, H, dy, W, dx
    return F.reshape(blocks, shape=(0, 0, -3, -3))


def backward(nd, attrs, shapes, output_grad):
    b, c, h, w = shapes["data"]
    s = attrs.stride
    if attrs.reverse:
        blocks = output_grad.reshape((b, c // (s * s), h, s, w, s))
        order = (0, 1, 3, 5, 2, 4) if attrs.mode == "CRD" else (0, 3, 5, 1, 2, 4)
    elif attrs.mode == "darknet":
        blocks, order = output_grad.reshape((b, s, s, c * h // (s * s), s, w // s)), (0, 3, 1, 4, 5, 2)
    elif attrs.mode == "CRD":
        blocks, order = output_grad.reshape((b, c, s, s, h // s, w // s)), (0, 1, 4, 2, 5, 3)
    else:
        blocks, order = output_grad.reshape((b, s, s, c, h // s, w // s)), (0, 3, 4, 1, 5, 2)
    return {"data": nd.transpose(blocks, order).reshape((b, c, h, w))}
