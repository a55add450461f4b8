"""From tensors as files have them to weights as kernels want them."""
