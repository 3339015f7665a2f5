"""Parts shared by the operators on class labels: which labels are valid, and the effect of the other labels."""
