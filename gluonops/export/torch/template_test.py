"""Compares the net with outputs and gradients that were recorded with MXNet. Needs torch and pytest."""
import json
from pathlib import Path

import net as exported
import pytest
import torch

RECORD = Path(__file__).with_name("test_net.safetensors")
SAMPLE = 64


def recorded():
    content = RECORD.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    kinds = {"F64": torch.float64, "I16": torch.int16}
    arrays = {}
    for name, entry in json.loads(content[8:begin]).items():
        first, last = entry["data_offsets"]
        data = bytearray(content[begin + first : begin + last])
        arrays[name] = torch.frombuffer(data, dtype=kinds[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def sample(tensor):
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE]


@pytest.mark.parametrize("mode", ["evaluation", "training"])
def test_net(mode):
    expected = recorded()
    inputs = [expected[name].double() / 64 for name in sorted(expected) if name.startswith("input.")]
    net = exported.load(torch.float64).train(mode == "training")
    for module in net.modules():
        if "Dropout" in type(module).__name__:
            module.p = 0.0
    outputs = net(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for number, output in enumerate(outputs):
        torch.testing.assert_close(sample(output), expected[f"{mode}.output.{number}"], rtol=1e-9, atol=1e-9)
    heads = [torch.arange(output.numel()).double().cos().reshape(output.shape) for output in outputs]
    torch.autograd.backward(outputs, heads)
    gradients = {key: value.grad for key, value in net.named_parameters() if value.requires_grad}
    largest = max(float(gradient.abs().max()) for gradient in gradients.values()) if gradients else 0.0
    for key, gradient in gradients.items():
        theirs = expected[f"{mode}.gradient.{key}"]
        torch.testing.assert_close(sample(gradient), theirs, rtol=1e-9, atol=1e-10 * largest)
