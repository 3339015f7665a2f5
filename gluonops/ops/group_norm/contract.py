"""The contract of ``group_norm``."""
from ...contract.op import Arg, Array, Attr, Cuda, Float, Int, Op, Out, Shapes, rows

GROUPS = "batch, num_groups"
LONGEST_ROW = 4096   # the threads of this row, and of longer ones
STEPS = ("CHANNELS", "GROUPS", "DATA")   # backward's launches; see kernel.cu
BOUNDS = "THREADS, sizeof(T) < 8 ? 3 : 2"

OP = Op(
    name="group_norm",
    summary="groups of channels normalised to mean 0 and deviation 1, scaled and shifted",
    family="normalisation",
    inputs=(Arg("data", "T"),
            Arg("gamma", "T", doc="The factor of each channel, (channels,); the dtype of ``data``."),
            Arg("beta", "T", doc="What is added to each channel, (channels,); the dtype of ``data``.")),
    outputs=(Out("output", "T", "shape of data"),
             Out("mean", "A", "of each group, (batch, num_groups)"),
             Out("rstd", "A", "1 / root of the variance plus eps, (batch, num_groups)")),
    attrs=(Attr("num_groups", Int(1), 32, "The number of groups, by which the number of channels is divisible."),
           Attr("eps", Float(low=1e-12, below=1), 1e-5,
                "What is added to the variance, from 1e-12 to below 1.")),
    shapes=Shapes(data="batch, channels, inner...", gamma="channels", beta="channels",
                  output="batch, channels, inner...", mean=GROUPS, rstd=GROUPS, whole="channels / num_groups"),
    remedies={"channels": "Choose another num_groups"},
    backward=("output_grad", "data", "gamma", "mean", "rstd"),
    cuda=Cuda(
        forward=rows("batch * num_groups", f"min(length, {LONGEST_ROW})"),
        backward=rows("batch * channels", f"min(inner, {LONGEST_ROW})", STEPS),
        steps=STEPS,
        # They sum up the head gradient, and its product with the normalised data; see kernel.cu.
        scratch=(Array("channel_sums", "Sums", "batch * channels", "backward", numbers=2),
                 Array("group_sums", "Sums", "batch * num_groups", "backward", numbers=2)),
        forward_bounds=BOUNDS,
        backward_bounds=BOUNDS,
    ),
    derived={"group_channels": "channels // num_groups", "length": "group_channels * inner"},   # elements per group
    scratch=(Array("grad_out_sums", "float64", "batch * channels", "backward"),   # a sample's channels have them
             Array("x_hat_sums", "float64", "batch * channels", "backward")),
)
