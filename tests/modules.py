"""Small modules for tests."""

from torch import nn


class Calls(nn.Module):
    """A module whose forward is the given function."""

    def __init__(self, function, **children):
        super().__init__()
        self.function = function
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)
