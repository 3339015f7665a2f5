"""What the benchmarks share: the machine, tables of text, results in files, and the suites of the operators."""
