"""Networks of torchvision and timm with random weights, on small images where they take them.

make_torchvision("resnet18"), make_timm("vit_tiny_patch16_224")
"""

from __future__ import annotations

import torch
from plain import Made
from torch import Tensor, nn

SMALL = 64
_ANY_SIZE = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s",
    "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_400mf",
    "regnet_y_400mf", "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0", "squeezenet1_0", "squeezenet1_1", "swin_t", "swin_v2_t", "vgg11",
    "vgg11_bn", "wide_resnet50_2", "googlenet", "fcn_resnet50", "deeplabv3_mobilenet_v3_large",
    "deeplabv3_resnet50", "lraspp_mobilenet_v3_large",
)  # fmt: skip
TORCHVISION = {
    **dict.fromkeys(_ANY_SIZE, SMALL),
    "vit_b_32": SMALL,
    "vit_b_16": SMALL,
    "maxvit_t": 224,
    "inception_v3": 96,
    "r3d_18": SMALL,
    "mc3_18": SMALL,
    "r2plus1d_18": SMALL,
    "raft_small": 128,
    "ssdlite320_mobilenet_v3_large": 320,
}
"""The side of an image."""
VIDEOS = ("r3d_18", "mc3_18", "r2plus1d_18")
TIMM = (
    "resnet10t", "resnet26d", "resnetv2_50", "seresnet18", "ecaresnet26t", "skresnet18",
    "resnest14d", "res2net50_26w_4s", "regnetx_002", "regnety_002", "regnetz_b16",
    "densenet121", "dla34", "hrnet_w18_small", "vovnet39a", "ese_vovnet19b_dw", "cspresnet50",
    "cspdarknet53", "darknet17", "dpn48b", "xception41", "inception_v3", "inception_next_tiny",
    "mobilenetv1_100", "mobilenetv2_050", "mobilenetv3_small_050", "mobilenetv4_conv_small",
    "mobilenetv4_hybrid_medium", "mobileone_s0", "mnasnet_small", "semnasnet_075", "fbnetc_100",
    "hardcorenas_a", "tinynet_e", "lcnet_050", "ghostnet_050", "ghostnetv2_100",
    "efficientnet_lite0", "efficientnet_b0", "tf_efficientnetv2_b0", "mixnet_s", "rexnet_100",
    "repvgg_a0", "repvit_m0_9", "repghostnet_050", "fastvit_t8", "convnext_atto",
    "convnextv2_atto", "convmixer_1024_20_ks9_p14", "poolformer_s12", "poolformerv2_s12",
    "caformer_s18", "convformer_s18", "edgenext_xx_small", "efficientformer_l1",
    "efficientformerv2_s0", "efficientvit_b0", "efficientvit_m0", "mobilevit_xxs",
    "mobilevitv2_050", "shvit_s1", "starnet_s1", "swiftformer_xs", "mambaout_femto",
    "vit_tiny_patch16_224", "deit_tiny_patch16_224", "deit3_small_patch16_224",
    "vit_relpos_small_patch16_224", "flexivit_small", "eva02_tiny_patch14_224",
    "beit_base_patch16_224", "cait_xxs24_224", "xcit_nano_12_p16_224", "crossvit_tiny_240",
    "convit_tiny", "coat_lite_tiny", "coatnet_nano_rw_224", "maxvit_rmlp_pico_rw_256",
    "tnt_s_legacy_patch16_224", "pit_ti_224", "levit_128s", "visformer_tiny", "twins_svt_small",
    "pvt_v2_b0", "mvitv2_tiny", "swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256",
    "swin_s3_tiny_224", "davit_tiny", "nest_tiny", "gcvit_xxtiny", "focalnet_tiny_srf",
    "mixer_s32_224", "gmixer_24_224", "resmlp_12_224", "gmlp_ti16_224", "sequencer2d_s",
    "volo_d1_224", "tiny_vit_5m_224", "hiera_tiny_224", "nextvit_small", "hgnet_tiny",
    "hgnetv2_b0", "tresnet_m", "lambda_resnet26t", "botnet26t_256", "halonet26t",
    "bat_resnext26ts", "eca_botnext26ts_256", "nf_regnet_b0", "nfnet_f0", "selecsls42b",
    "rdnet_tiny", "csatv2", "naflexvit_base_patch16_gap",
)  # fmt: skip


def declare_suppression() -> None:
    """Makes torchvision importable, which others import, too.

    Its wheel may be for another torch than ours; networks need only the names of these operators.
    """
    try:
        import torchvision  # noqa: F401
    except ModuleNotFoundError:
        return
    except RuntimeError:  # operator torchvision::nms does not exist
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)


_KEPT: list[torch.library.Library] = []
"""A library's definitions end with it."""


class Detected(nn.Module):
    """A detector of a list of images, for one; its results in the order of their names."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        (found,) = self.inside([image])
        return tuple(found[key] for key in sorted(found))


class Named(nn.Module):
    """A network whose outputs are in a dictionary."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.inside(x).values())


def torchvision_names() -> list[str]:
    return list(TORCHVISION)


def make_torchvision(name: str) -> Made:
    declare_suppression()
    from torchvision import models

    side = TORCHVISION[name]
    options: dict = {"weights": None}
    if name.startswith("vit"):
        options["image_size"] = side
    if name in ("googlenet", "inception_v3"):
        options |= {"aux_logits": False, "init_weights": False}
    if name.startswith(("fcn", "deeplab", "lraspp", "ssdlite")):
        options["weights_backbone"] = None
    module = models.get_model(name, **options)
    if name in VIDEOS:
        return module, (torch.randn(1, 3, 8, side, side),), {}
    image = torch.randn(1, 3, side, side)
    if name == "raft_small":
        return module, (image, torch.randn(1, 3, side, side)), {}
    if name.startswith("ssdlite"):
        return Detected(module), (image[0],), {}
    if name.startswith(("fcn", "deeplab", "lraspp")):
        module = Named(module)
    return module, (image,), {}


def timm_names() -> list[str]:
    return list(TIMM)


def make_timm(name: str) -> Made:
    """Images of 64 x 64 where the network takes any size, else of its own."""
    declare_suppression()
    import timm

    module = timm.create_model(name, pretrained=False, num_classes=10)
    channels, *sides = module.default_cfg["input_size"]
    if not module.default_cfg.get("fixed_input_size"):
        try:
            with torch.no_grad():
                module.eval()(torch.randn(1, channels, SMALL, SMALL))
            sides = [SMALL, SMALL]
        except Exception:  # whatever it says of an image that is too small for it
            pass
    return module, (torch.randn(1, channels, *sides),), {}
