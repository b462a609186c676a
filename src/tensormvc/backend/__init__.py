"""What NumPy and PyTorch do differently, and what the machine allows. Internal; nothing here knows of clustering."""
