"""The vision transformer against one written out attention by attention."""

import math

import torch

from newfound.nets.vit import HEAD, ViT


def normalised(vectors, norm):
    mean, variance = vectors.mean(-1, keepdim=True), vectors.var(-1, keepdim=True, correction=0)
    return (vectors - mean) / (variance + 1e-6).sqrt() * norm.weight + norm.bias


def attended(vectors, attention):
    width = vectors.shape[-1]
    queries, keys, values = (attention.qkv(vectors)[..., i * width : (i + 1) * width] for i in range(3))
    heads = []
    for first in range(0, width, HEAD):
        own = slice(first, first + HEAD)
        shares = (queries[..., own] @ keys[..., own].transpose(1, 2) / math.sqrt(HEAD)).softmax(-1)
        heads.append(shares @ values[..., own])
    return attention.proj(torch.cat(heads, -1))


def test_it_is_what_the_paper_writes_out():
    torch.manual_seed(0)
    net = ViT(192, 3, 48).double().eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        images = torch.randn(2, 3, 48, 48, dtype=torch.float64)
        kernel, bias = net.patch_embed.proj.weight.flatten(1), net.patch_embed.proj.bias
        patches = [
            images[:, :, 16 * i : 16 * i + 16, 16 * j : 16 * j + 16].flatten(1) @ kernel.T + bias
            for i in range(3)
            for j in range(3)
        ]
        vectors = torch.stack([net.cls_token[0].expand(2, -1), *patches], 1) + net.pos_embed
        for block in net.blocks:
            vectors = vectors + attended(normalised(vectors, block.norm1), block.attn)
            inner = block.mlp.fc1(normalised(vectors, block.norm2))
            vectors = vectors + block.mlp.fc2(inner * (1 + torch.erf(inner / math.sqrt(2))) / 2)
        expected = normalised(vectors, net.norm)[:, 0]
        torch.testing.assert_close(net(images), expected)
