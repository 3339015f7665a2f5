"""What an operator declares: arguments, attributes, shapes, expressions, errors. No operator is known here by name."""
