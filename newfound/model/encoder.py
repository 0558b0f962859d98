"""The encoder of a model: from images to the features that categories are found in."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.nets import build
from newfound.nets.heads import Whitened
from newfound.nets.normalise import Normalise


class Encoder(nn.Module):
    """Images [N, C, H, W], uint8 or float in 0..1, to features [N, width]."""

    def __init__(
        self,
        network: str,
        channels: int,
        size: int,
        mean: Tensor,
        deviation: Tensor,
        *,
        dimension: int = 0,
        resized: int = 0,
        whitened: bool = False,
    ) -> None:
        """``dimension`` is that of the features, by a linear layer after the network; 0 takes the network's own.

        With ``resized``, images are brought to that many pixels and, by statistics of three channels, to three
        channels: what a network that others trained expects. ``whitened`` has directions enter the linear layer.
        """
        super().__init__()
        self.network, self.channels, self.size, self.dimension = network, channels, size, dimension
        self.resized, self.whitened = resized, whitened
        self.normalise = Normalise(mean, deviation)
        # Channels last: on 2 cores 1.1 (ResNet-18) to 1.7 (tiny) times as fast, and what a GPU works in.
        self.net = build(network, 3, resized) if resized else build(network, channels, size)
        self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        layer = Whitened if whitened else nn.Linear
        self.project = layer(self.net.width, dimension) if dimension else nn.Identity()
        self.width = dimension or self.net.width

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.project(self.backbone_features(images))
        return features

    def backbone_features(self, images: Tensor) -> Tensor:
        """The network's own features [N, net.width], before the linear layer."""
        images = self.normalise(images)
        if self.resized and images.shape[-1] != self.resized:
            images = F.interpolate(images, (self.resized, self.resized), mode="bilinear", antialias=True)
        features: Tensor = self.net(images.contiguous(memory_format=torch.channels_last))
        return features
