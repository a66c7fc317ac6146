"""What the drop-ins for PyTorch and Optax share."""
