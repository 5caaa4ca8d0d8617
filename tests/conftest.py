"""Settings that all tests share."""

try:
    import torch
except ImportError:
    pass
else:
    # Tests run side by side on few cores; more threads would only get in each other's way.
    torch.set_num_threads(1)
