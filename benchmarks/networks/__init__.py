"""Whole networks on the CPU, beside onnxruntime and torch.

``python -m benchmarks.networks.deploy`` times exported ones, ``.int8`` those in 8 bits, ``.int8_accuracy`` says what 8
bits cost, and ``.darknet_cfgs`` runs every cfg of Darknet. ``training`` has the steps that ``benchmarks.busy`` times.
"""
