"""The contract of an operator that divides rows by the root of their squares, and scales each channel."""
from ...contract.op import THREADS, Arg, Array, Attr, Cuda, Float, Int, Kernels, Launch, Op, Out, Shapes
from .._softmax.contract import HELD, ROWS_AND_AXIS, WARP, power_of_two, threads_per_row

GPU_BLOCKS = 512    # The most blocks of backward, each with sums of its own for the gradient of the scale.
STEPS = ("DOTS", "ROWS", "SCALE")   # for the dot products of long rows, the gradient of the data, and that of the scale

DATA = "batch..., channels@axis, inner..."


def threads(length: int, inner: int) -> int:
    """Return the threads of a row. Rows that are neighbours in memory get few, so that many of them share a block."""
    if inner == 1:
        return threads_per_row(length)
    return min(WARP, power_of_two(length / HELD))


def forward(args) -> Launch:
    """Return the launch for a row of each (batch, inner).

    More rows of float16 share a block, so that 64 bytes are read at a time.
    """
    of_row = threads(args.channels, args.inner)
    if args.inner > 1 and args.dtype == "float16":
        of_row = max(1, of_row // 2)
    return Launch.of_rows(args.batch * args.inner, of_row)


def backward(args) -> Launch:
    """Return the launches in which a block takes as many rows at a time as it has.

    A row has splits, each of which its threads can hold.
    """
    of_row = threads(args.channels, args.inner)
    splits = -(-args.channels // (HELD * of_row)) or 1
    most = max(1, GPU_BLOCKS // splits) * (THREADS // of_row)
    return Launch.of_rows(min(args.batch * args.inner, most), of_row, splits, STEPS[1:] if splits == 1 else STEPS)


def scaled_rows(name: str, summary: str, by_mean: bool, axis: int, eps: float) -> Op:
    """Return the contract of ``rms_norm`` or of ``l2_normalize``, with the defaults of ``axis`` and ``eps``.

    With ``by_mean`` rows are divided by the root of the mean of their squares, and otherwise by that of the sum.
    """
    return Op(
        name=name,
        summary=summary,
        family="normalisation",
        inputs=(Arg("data", "T"),
                Arg("scale", "T", doc="The factors along ``axis``, (channels,); the dtype of ``data``.")),
        outputs=(Out("output", "T", "shape of data"),
                 Out("rstd", "A", "1 / root, per row")),
        attrs=(Attr("axis", Int(), axis, "The axis of the channels."),
               Attr("eps", Float(low=1e-12, below=1), eps, "What is added under the root, from 1e-12 to below 1.")),
        shapes=Shapes(data=DATA, scale="channels", output=DATA, rstd=ROWS_AND_AXIS),
        # A block has some rows, or some neighbouring columns of a sample.
        derived={"share": "1 / max(1, channels)" if by_mean else "1.0",
                 "row_blocks": "max(min(batch, FEW_BLOCKS), (batch + BLOCK_ROWS - 1) // BLOCK_ROWS)",
                 "column_blocks": "batch * max(1, (inner + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS)",
                 "blocks": "row_blocks if inner == 1 else column_blocks"},
        constants={"FEW_BLOCKS": 64, "BLOCK_ROWS": 512, "BLOCK_COLUMNS": 8192},
        scratch=(Array("partial", "A", "blocks * channels", "backward"),),
        kernels=Kernels("_rms/rms", forward="rms_forward(args)", backward="rms_backward(args)"),
        cuda=Cuda(
            forward=forward,
            backward=backward,
            steps=STEPS,
            # The dot product of each split of a row, and each block's sums for each channel.
            scratch=(Array("dots", "A", "batch * inner * splits if splits > 1 else 0", "backward"),
                     Array("sums", "A", f"{GPU_BLOCKS} * channels", "backward")),
            forward_bounds="THREADS, 2",
            backward_bounds="THREADS, sizeof(T) < 8 ? 2 : 1",
        ),
    )
