"""Operators as tutorials before MXNet 1.0 had them; only the base class is another one."""
import mxnet as mx
import numpy as np
from gluonops.legacy import NDArrayOp, NumpyOp, Rtc


class NumpyTile(NumpyOp):
    """numpy.tile along the last axis."""

    def __init__(self, tiles):
        super().__init__(True)
        self.tiles = tiles

    def list_arguments(self):
        return ["data"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shape):
        data_shape = in_shape[0]
        return [data_shape], [data_shape[:-1] + [data_shape[-1] * self.tiles]]

    def forward(self, in_data, out_data):
        out_data[0][:] = np.tile(in_data[0], self.tiles)

    def backward(self, out_grad, in_data, out_data, in_grad):
        shape = in_data[0].shape
        in_grad[0][:] = out_grad[0].reshape(shape[:-1] + (self.tiles, shape[-1])).sum(-2)


class NumpySoftmax(NumpyOp):
    """Softmax as a loss: its gradient is p - onehot."""

    def __init__(self):
        super().__init__(False)

    def list_arguments(self):
        return ["data", "label"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shape):
        data_shape = in_shape[0]
        label_shape = (in_shape[0][0],)
        return [data_shape, label_shape], [data_shape]

    def forward(self, in_data, out_data):
        x, y = in_data[0], out_data[0]
        y[:] = np.exp(x - x.max(axis=1).reshape((x.shape[0], 1)))
        y /= y.sum(axis=1).reshape((x.shape[0], 1))

    def backward(self, out_grad, in_data, out_data, in_grad):
        label = in_data[1].reshape(-1).astype(int)
        dx = in_grad[0]
        dx[:] = out_data[0]
        dx[np.arange(label.shape[0]), label] -= 1.0


class NDArraySoftmax(NDArrayOp):
    """The same with NDArrays, which may be on any device."""

    def __init__(self):
        super().__init__(False)

    def list_arguments(self):
        return ["data", "label"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]

    def forward(self, in_data, out_data):
        x = in_data[0]
        e = mx.nd.exp(mx.nd.broadcast_sub(x, mx.nd.max(x, axis=1, keepdims=True)))
        out_data[0][:] = mx.nd.broadcast_div(e, mx.nd.sum(e, axis=1, keepdims=True))

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = out_data[0] - mx.nd.one_hot(in_data[1], out_data[0].shape[1])

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        return [in_data[1], out_data[0]]


class RtcReorg(NDArrayOp):
    """Darknet's reorg, by kernels in strings that count with x_dims."""

    def __init__(self, stride=2):
        super().__init__(True)
        self.stride = stride
        self.fwd_kernel = self.bwd_kernel = None

    def infer_shape(self, in_shape):
        batch, channels, height, width = in_shape[0]
        s = self.stride
        return in_shape, [[batch, channels * s * s, height // s, width // s]]

    def source(self, name, statement):
        """``i`` counts the elements of the smaller map, ``j`` is where Darknet takes it from."""
        return f"""
            const int s = {self.stride}, columns = {name}_dims[{name}_ndim - 1];
            const int rows = {name}_dims[1] * {name}_dims[2] / (s * s * s);
            const int i = threadIdx.x + blockIdx.x * blockDim.x;
            if (i >= {name}_dims[0] * {name}_dims[1] * {name}_dims[2] * columns) return;
            const int w = i % columns, b = i / columns % s, r = i / columns / s % rows, k = i / columns / s / rows;
            const int j = (((((k / (s * s)) * rows + r) * s + k / s % s) * s + b) * columns + w) * s + k % s;
            {statement}"""

    def forward(self, in_data, out_data):
        x, y = in_data[0], out_data[0]
        if self.fwd_kernel is None:
            self.fwd_kernel = Rtc("old_reorg", [("x", x)], [("y", y)], self.source("y", "y[i] = x[j];"))
        self.fwd_kernel.push([x], [y], ((y.size + 63) // 64, 1, 1), (64, 1, 1))

    def backward(self, out_grad, in_data, out_data, in_grad):
        dy, dx = out_grad[0], in_grad[0]
        if self.bwd_kernel is None:
            self.bwd_kernel = Rtc("old_reorg_gradient", [("dy", dy)], [("dx", dx)], self.source("dy", "dx[j] = dy[i];"))
        self.bwd_kernel.push([dy], [dx], ((dy.size + 63) // 64, 1, 1), (64, 1, 1))
