"""What the benchmarks share: cases and their inputs, peers in turns, results, reports and commands."""
