"""Tools for authors of metrics and backbones."""
