"""A model as one graph from pixels to probabilities, for programs that have neither newfound nor PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from newfound.model.model import Model
from newfound.model.scaling import centre_square


class Graph(nn.Module):
    """Probabilities [N, known + novel], how strange each image is [N], and its p-value [N], of uint8 images
    [N, C, H, W] of any size, or of features [N, D] where the model was made of features.

    ``outputs`` names what of this there is: a model that was never calibrated has no p-values. All of it is what
    ``Model.judge`` and ``Strangeness.p_value`` give, in operations that can be written to a file.
    """

    enlarge: Tensor | None

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model, encoder = model, model.encoder
        enlarge = None
        if encoder.resized and encoder.resized != encoder.size:  # torch's own resizing cannot be written
            pixels = torch.eye(encoder.size)[None, None]
            shape = encoder.resized, encoder.size
            enlarge = F.interpolate(pixels, shape, mode="bilinear", antialias=True)[0, 0]
        self.register_buffer("enlarge", enlarge)

    @property
    def takes_images(self) -> bool:
        return self.model.encoder.network != "features"

    @property
    def outputs(self) -> tuple[str, ...]:
        strangeness = self.model.strangeness
        if strangeness is None:
            return ("probabilities",)
        return ("probabilities", "strangeness", *(["p_value"] if len(strangeness.held_out) else []))

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        judged = self.model.judge_backbone(self._backbone(images))
        strangeness = judged[:, -1]
        found = [judged[:, :-1].softmax(1), strangeness]
        if "p_value" in self.outputs:
            assert self.model.strangeness is not None
            held_out = self.model.strangeness.held_out
            as_strange = (held_out[None] >= strangeness[:, None]).sum(1)
            found.append((1 + as_strange.double()) / (1 + len(held_out)))
        return tuple(found[: len(self.outputs)])

    def _backbone(self, images: Tensor) -> Tensor:
        encoder = self.model.encoder
        if not self.takes_images:
            features: Tensor = encoder.net(encoder.normalise(images[:, :, None, None]))
            return features
        maps = encoder.normalise(centre_square(images, encoder.size) / 255)
        if self.enlarge is not None:
            maps = self.enlarge @ maps @ self.enlarge.T
        features = encoder.net(maps)
        return features
