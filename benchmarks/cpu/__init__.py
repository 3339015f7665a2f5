"""The operators beside their peers on the CPU."""
