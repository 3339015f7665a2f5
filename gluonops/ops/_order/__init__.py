"""What the operators that order numbers share."""
