"""Vision transformers (Dosovitskiy et al. 2021) of three widths with patches of 16 pixels, without their classifier.

Parameters carry timm's names (patch_embed.proj, blocks.0.attn.qkv, ...), so published weights fit by name.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PATCH = 16
DEPTH = 12
HEAD = 64
"""Width of an attention head, so that a network of width 192 has three."""
WIDTHS = {"vit-tiny-16": 192, "vit-small-16": 384, "vit-base-16": 768}
EPSILON = 1e-6
"""Of the layer norms, as in the published weights."""


class Patches(nn.Module):
    """From images [N, channels, size, size] to vectors [N, (size / 16)², width], one for each patch, row by row."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, width, PATCH, PATCH)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(images).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    """Each of the vectors [N, T, width] looks at all of them, by heads of 64 numbers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, vectors: Tensor) -> Tensor:
        queries, keys, values = self.qkv(vectors).unflatten(2, (3, -1, HEAD)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(queries, keys, values)
        return self.proj(seen.transpose(1, 2).flatten(2))


class Perceptron(nn.Module):
    """Two layers with a GELU between them, four times as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, vectors: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(vectors)))


class Block(nn.Module):
    """Attention, then a perceptron, each beside a shortcut and after a layer norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, EPSILON)
        self.attn = Attention(width)
        self.norm2 = nn.LayerNorm(width, EPSILON)
        self.mlp = Perceptron(width)

    def forward(self, vectors: Tensor) -> Tensor:
        vectors = vectors + self.attn(self.norm1(vectors))
        return vectors + self.mlp(self.norm2(vectors))


class ViT(nn.Module):
    """Features [N, width] of images [N, channels, size, size]: what the class token has become at the end."""

    def __init__(self, width: int, channels: int = 3, size: int = 224) -> None:
        super().__init__()
        self.width, self.size = width, size
        self.patch_embed = Patches(channels, width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (size // PATCH) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(width, EPSILON)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.normal_(self.cls_token, std=1e-6)

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[2:] != (self.size, self.size):
            raise ValueError(
                f"this vit was built for images of {self.size} x {self.size} pixels, got {tuple(images.shape[2:])}"
            )
        patches = self.patch_embed(images)
        vectors = torch.cat([self.cls_token.expand(images.shape[0], -1, -1), patches], dim=1) + self.pos_embed
        return self.norm(self.blocks(vectors))[:, 0]
