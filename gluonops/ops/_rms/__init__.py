"""What rms_norm and l2_normalize share: rows that are divided by the root of their squares, and scaled."""
