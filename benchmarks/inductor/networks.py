"""The ten networks that are measured, by name: small and medium ones, seeded random weights.

make("resnet18")        the module, ready to run, and its arguments
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).resolve().parents[1] / "architectures" / "pytorch"))
from judged import make as make_architecture
from plain import Recurrent, UNet, Yolo
from vision import declare_suppression

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


def _of_the_list(name: str, *shape: int) -> Callable[[], Made]:
    """One of the list of architectures, for an image of this shape."""

    def build() -> Made:
        module, _, _ = make_architecture(name)
        return module, (torch.randn(shape),)

    return build


def _plain(build: Callable[[], nn.Module], *shape: int) -> Callable[[], Made]:
    return lambda: (build(), (torch.randn(shape),))


def _bert_tiny() -> Made:
    """Two layers of width 128 (Turc et al., 2019), 128 tokens."""
    declare_suppression()
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512
    )
    return _First(BertModel(config)), (torch.randint(3, config.vocab_size, (1, 128)),)


class _First(nn.Module):
    """The first result of one that gives several."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inside(x)[0]


_IMAGE = (1, 3, 224, 224)
NETWORKS: dict[str, Callable[[], Made]] = {
    "resnet18": _of_the_list("torchvision/resnet18", *_IMAGE),
    "mobilenet_v3_small": _of_the_list("torchvision/mobilenet_v3_small", *_IMAGE),
    "squeezenet1_1": _of_the_list("torchvision/squeezenet1_1", *_IMAGE),
    "shufflenet_v2_x1_0": _of_the_list("torchvision/shufflenet_v2_x1_0", *_IMAGE),
    "efficientnet_b0": _of_the_list("torchvision/efficientnet_b0", *_IMAGE),
    "vit_tiny_patch16_224": _of_the_list("timm/vit_tiny_patch16_224", *_IMAGE),
    "bert_tiny": _bert_tiny,
    "lstm": _plain(lambda: Recurrent(nn.LSTM), 1, 50, 16),
    "unet": _plain(lambda: UNet(is_bilinear=False), 1, 3, 256, 256),
    "yolo": _plain(Yolo, 1, 3, 256, 256),
}


def make(name: str) -> Made:
    """The same each time."""
    torch.manual_seed(0)
    module, arguments = NETWORKS[name]()
    return module.eval(), arguments
