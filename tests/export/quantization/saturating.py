"""What a processor without VNNI computes of 8 bits, in NumPy: products are added in pairs, and each sum saturates."""
import numpy as np

LOWEST, LARGEST = -2 ** 15, 2 ** 15 - 1


def product(data: np.ndarray, weight: np.ndarray, saturating: bool) -> np.ndarray:
    """Rows of uint8 (N, K) times rows of int8 (M, K), as int64 (N, M): ``vpmaddubsw`` on neighbours, and a sum."""
    assert data.min(initial=0) >= 0 and data.max(initial=0) <= 255 and abs(weight).max(initial=0) <= 128
    odd = data.shape[1] % 2
    data, weight = (np.pad(values.astype(np.int64), ((0, 0), (0, odd))) for values in (data, weight))
    products = data[:, None] * weight
    pairs = products[..., ::2] + products[..., 1::2]
    return (pairs.clip(LOWEST, LARGEST) if saturating else pairs).sum(-1)


def patches(data: np.ndarray, kernel: tuple, stride: tuple, pad: tuple, zero: int) -> np.ndarray:
    """What a convolution multiplies by its weights, (N, C, height, width, kernel height, kernel width)."""
    data = np.pad(data, ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])), constant_values=zero)
    windows = np.lib.stride_tricks.sliding_window_view(data, kernel, (2, 3))
    return windows[:, :, ::stride[0], ::stride[1]]


def convolution(data: np.ndarray, weight: np.ndarray, saturating: bool, zero: int = 0, stride: tuple = (1, 1),
                pad: tuple = (0, 0)) -> np.ndarray:
    """Sums of ``(data - zero) * weight`` of uint8 (N, C, H, W) and int8 (M, C / groups, h, w), with a few groups."""
    windows = patches(data, weight.shape[2:], stride, pad, zero)
    groups = data.shape[1] // weight.shape[1]
    results = []
    for part, filters in zip(np.split(windows, groups, 1), np.split(weight, groups)):
        rows = part.transpose(0, 2, 3, 1, 4, 5).reshape(-1, filters[0].size)
        filters = filters.reshape(len(filters), -1)
        sums = product(rows, filters, saturating) - zero * filters.astype(np.int64).sum(1)
        results.append(sums.reshape(len(data), *part.shape[2:4], -1).transpose(0, 3, 1, 2))
    return np.concatenate(results, 1)


def largest_pair(weight: np.ndarray, largest_data: int) -> int:
    """The largest sum of two products that a channel's weights can have, whatever their order and the data."""
    magnitudes = np.sort(abs(weight.reshape(len(weight), -1).astype(int)), 1)
    return int(largest_data * magnitudes[:, -2:].sum(1).max())
