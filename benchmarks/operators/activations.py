"""Activations: of feature maps, element by element."""
from ..harness.declaration import AS_FAST_AS_A_COPY, AlongAxis, OfSamples, Row, Target

TANH = {"approximation": "tanh"}


class Activation(OfSamples):
    CPU = [Row((16, 64, 76, 76))]
    TYPICAL = SMALL = [Row((7, 149))]
    GPU = [Row((256, 64, 64, 64)), Row((512, 64, 64, 64), dtype="float16")]
    GPU_TARGETS = AS_FAST_AS_A_COPY


class gelu(Activation):
    CPU = [*Activation.CPU, Row((16, 64, 76, 76), TANH)]
    VARIANTS = [Row((3, 5), TANH)]
    GPU = [*Activation.GPU, Row((256, 64, 64, 64), TANH)]

    def in_torch(self, attrs, ndim):
        name = {"erf": "none", "tanh": "tanh"}[attrs["approximation"]]
        return lambda torch, data: torch.nn.functional.gelu(data, approximate=name)


class hard_swish(Activation):
    def in_torch(self, attrs, ndim):
        return lambda torch, data: torch.nn.functional.hardswish(data)


class mish(Activation):
    def in_torch(self, attrs, ndim):
        return lambda torch, data: torch.nn.functional.mish(data)


class swish(Activation):
    VARIANTS = [Row((3, 5), {"beta": 2.5})]

    def in_torch(self, attrs, ndim):
        """torch has it with beta 1."""
        return (lambda torch, data: torch.nn.functional.silu(data)) if attrs["beta"] == 1 else None


class swiglu(AlongAxis):
    """The halves are those of rows, and of the channels of feature maps."""
    CPU = [Row((8192, 1000)), Row((16, 64, 76, 76), {"axis": 1})]
    TYPICAL = SMALL = [Row((7, 2 * 149)), Row((3, 64))]
    VARIANTS = [Row((2, 6, 5, 3), {"axis": 1}), Row((2, 6, 4, 4), {"axis": 1})]
    GPU = [Row((65536, 2048)), Row((65536, 2048), dtype="float16"), Row((64, 128, 64, 64), {"axis": 1})]
    GPU_TARGETS = [Target("forward", "torch", 1), Target("both", "torch", 1)]

    def in_torch(self, attrs, ndim):
        def run(torch, data):
            gate, value = data.chunk(2, attrs["axis"])
            return torch.nn.functional.silu(gate) * value

        return run
