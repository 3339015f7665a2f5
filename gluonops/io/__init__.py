"""Files, read and written without MXNet: arrays, records, YAML; and what a long command shows on the terminal."""
