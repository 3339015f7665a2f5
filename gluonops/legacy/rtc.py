"""``Rtc``: a CUDA kernel from the text of its body, as ``mx.rtc`` took it before MXNet 1.0."""
from __future__ import annotations

import functools
import re

import mxnet as mx

from ..contract.errors import OpError, plural
from ..cuda import cuda_source, rtc
from .notice import once

MAX_THREADS = 1024   # a block has no more on any GPU
INSTEAD = "mx.rtc.CudaModule, or an operator's folder of your own (docs/new_op.md)"


class Rtc:
    """A CUDA kernel with the interface of ``mx.rtc(name, inputs, outputs, body)``. The constructor compiles it.

    The body sees a pointer for every array, ``const`` for inputs, and for an array ``x`` the constants ``x_ndim`` and
    ``x_dims[]``, its shape. If arrays of other shapes or dtypes are pushed, the kernel is compiled for these, once.
    (The old class kept the constants of the first arrays.) float16 is ``__half``, which converts to and from float. No
    header is included.

    Parameters
    ----------
    name : str
        Name of the kernel.
    inputs, outputs : list of (str, NDArray)
        The arrays that the kernel reads and writes. All of them are on one GPU.
    kernel : str
        The body, without its braces.

    Raises
    ------
    OpError
        An array is not on a GPU, a name is no identifier of C, the body does not compile (with the compiler's messages
        and the lines it names), or this MXNet is built without CUDA.
    """

    def __init__(self, name: str, inputs: list[tuple[str, mx.nd.NDArray]], outputs: list[tuple[str, mx.nd.NDArray]],
                 kernel: str):
        once("Rtc", INSTEAD)
        self.where = "legacy.Rtc"
        self.name = name
        self.body = kernel
        self.inputs = [array_name for array_name, _ in inputs]
        self.outputs = [array_name for array_name, _ in outputs]
        arrays = self.inputs + self.outputs
        for text in [name, *arrays]:
            if not re.fullmatch(r"[A-Za-z_]\w*", str(text)) or arrays.count(text) > 1:
                raise OpError(self.where, f"{text!r} is not a name in C, or two arrays have it. The kernel is called "
                              f"{name!r} and its arrays {', '.join(map(repr, arrays))}; expected different names of "
                              "letters, digits and underscores", f"Rename {text!r}")
        if not outputs:
            raise OpError(self.where, f"the kernel {name} has no output", "Pass at least one output array")
        self._compiled([array for _, array in inputs], [array for _, array in outputs])

    def push(self, ins: list[mx.nd.NDArray], outs: list[mx.nd.NDArray], grid_dims: tuple[int, int, int],
             block_dims: tuple[int, int, int]) -> None:
        """Launch the kernel.

        Parameters
        ----------
        ins, outs : list of NDArray
            The arrays, in the order of ``inputs`` and ``outputs``.
        grid_dims, block_dims : tuple of int
            Three sizes each: of the grid in blocks, and of a block in threads, at most 1,024 of them.

        Raises
        ------
        OpError
            The number of arrays or of sizes is wrong, or the kernel does not compile for these arrays.
        """
        ins, outs, grid_dims, block_dims = list(ins), list(outs), tuple(grid_dims), tuple(block_dims)
        if (len(ins), len(outs)) != (len(self.inputs), len(self.outputs)):
            raise OpError(self.where, f"{self.name} got {plural(len(ins), 'input')} and {plural(len(outs), 'output')}; "
                          f"expected {len(self.inputs)} and {len(self.outputs)}",
                          "Push the arrays that the constructor names, in the same order")
        for what, sizes in (("grid_dims", grid_dims), ("block_dims", block_dims)):
            if len(sizes) != 3 or not all(isinstance(size, int) and size > 0 for size in sizes):
                raise OpError(self.where, f"{what} is {sizes}; expected three whole numbers of at least 1",
                              "Pass for instance (1, 1, 1); divide with //")
        threads = block_dims[0] * block_dims[1] * block_dims[2]
        if threads > MAX_THREADS:
            raise OpError(self.where,
                          f"block_dims is {block_dims}, which is {threads} threads; expected at most {MAX_THREADS}",
                          "Launch more blocks, and let the body count with blockIdx.x * blockDim.x + threadIdx.x")
        kernel = self._compiled(ins, outs)
        with rtc.lock:
            kernel.launch(ins + outs, outs[0].context, grid_dims, block_dims)

    def _compiled(self, ins: list[mx.nd.NDArray], outs: list[mx.nd.NDArray]) -> mx.rtc.CudaKernel:
        """Return the kernel for arrays of these shapes and types."""
        arguments = []
        for name, array in zip(self.inputs + self.outputs, ins + outs):
            if not isinstance(array, mx.nd.NDArray) or not rtc.usable(array.context):
                place = f"on {array.context}" if isinstance(array, mx.nd.NDArray) else f"a {type(array).__name__}"
                raise OpError(self.where, f"{name} is {place}; a CUDA kernel runs on NVIDIA GPUs only",
                              "Make the array on a GPU, with ctx=mx.gpu(), or use gluonops.ops, whose operators run "
                              "anywhere")
            c_type = rtc.C_TYPES.get(array.dtype.__name__)
            if c_type is None:
                raise OpError(self.where, f"{name} is {array.dtype.__name__}; expected {', '.join(rtc.C_TYPES)}",
                              f"Convert it with {name}.astype")
            qualifier = "const " if len(arguments) < len(ins) else ""
            arguments.append((f"{qualifier}{c_type} *{name}", name, array.shape))
        return _kernel(self.name, tuple(arguments), self.body, outs[0].context.device_id)


def sources(name: str, arguments: tuple, body: str) -> dict[str, str]:
    """Return the parts of a kernel's source in order: the text of each file by its name.

    ``arguments`` has the declaration, the name and the shape of each array.
    """
    signature = ", ".join(declaration for declaration, _, _ in arguments)
    constants = [f"const int {array}_ndim = {len(shape)}; const int {array}_dims[] = {{{', '.join(map(str, shape))}}};"
                 for _, array, shape in arguments]
    head = "\n".join([f"__global__ void {name}({signature})", "{", *constants])
    return {**cuda_source.prelude(), "arguments": head, f"{name}.cu": f"{body}\n}}"}


@functools.lru_cache(maxsize=256)
def _kernel(name: str, arguments: tuple, body: str, device: int) -> mx.rtc.CudaKernel:
    with rtc.lock:
        module = rtc.compiled("legacy.Rtc", sources(name, arguments, body), (name,),
                              f"the kernel {name} does not compile", "Correct its body")
        return module.get_kernel(name, ", ".join(declaration for declaration, _, _ in arguments))
