"""What a mitigation does within a diffusers pipeline: to text embeddings, the unconditional one, and cross-attention.

::

    text embedding             x' = P x                    each token of a prompt; P takes the group direction out
    unconditional embedding    u' = u + α_c d̂              d̂: unit direction from other groups to one, token by token;
                                                           α_c: of this prompt (Stay Fair, arXiv 2605.28036)
    cross-attention            y' = ‖y‖ · n(y − QQᵀy + QQᵀ(m + γ(m_g − m)))
                                                           y: a layer's output at a pixel; m_g: its mean over pixels of
                                                           images under prompts that name group g; m: their mean over
                                                           groups; Q: basis of all m_g − m; g: the group that the
                                                           image's seed draws; n(x) = x/‖x‖. With two groups and γ = 1
                                                           this is EquiSteer's (arXiv 2607.01147)

    weights                    (W + m s B A) x             m: 0 of an image whose prompt the gate spares, else 1; s: of
                                                           the LoRA

A prompt that the gate spares is drawn as it was. In a guided call, the unconditional half is not steered; a LoRA is in
both halves or in neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from clinometer._torch import torch
from clinometer.errors import ModelError
from clinometer.models.diffusers.backbone import network_of
from clinometer.models.mitigation import IN_WORDS, TENSORS, Mitigation, read_mitigation

ATTENTION: Final = "attn2"
"""The name of the cross-attention of a UNet's transformer block in diffusers."""


def cross_attentions(network: Any) -> dict[str, Any]:
    """Find the cross-attention layers of a UNet by their names, in their order."""
    return {name: module for name, module in network.named_modules() if name.rpartition(".")[2] == ATTENTION}


class Mitigator:
    """Does to each batch of a pipeline what a mitigation says.

    Parameters
    ----------
    pipeline : a loaded pipeline, whose cross-attention or LoRA is hooked where the mitigation acts on it.
    mitigation : what to do.
    tensors : what was computed when it was made, by name.
    """

    def __init__(self, pipeline: Any, mitigation: Mitigation, tensors: dict[str, torch.Tensor]) -> None:
        self.mitigation = mitigation
        self._tensors = tensors
        self._groups: list[int | None] = []
        self._spared: list[bool] = []
        self._step = 0
        if mitigation.acts_on == "weights":
            self._gate_lora(pipeline)
        if mitigation.acts_on == "cross-attention":
            self._names = list(mitigation.target)
            layers = cross_attentions(network_with_attention(pipeline, mitigation.method))
            wanted = {name.partition("/")[2] for name in tensors if name.startswith("apart/")}
            if set(layers) != wanted:
                raise ModelError.mismatch(
                    f"it steers {len(wanted)} layers, and this model has {len(layers)} of other names; make one for it "
                    "by clinometer mitigate",
                    field="mitigation",
                )

            def note_step(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
                t = float(torch.as_tensor(named["timestep"] if "timestep" in named else arguments[1]).flatten()[0])
                self._step = int((self._tensors["timesteps"] - t).abs().argmin())  # the nearest that is known

            pipeline.unet.register_forward_pre_hook(note_step, with_kwargs=True)
            for name, layer in layers.items():
                layer.register_forward_hook(lambda *call, name=name: self._steer(name, call[-1]))

    @classmethod
    def of(
        cls, pipeline: Any, place: Path, name: str, weights_sha256: str | None, lora: str | None = None
    ) -> Mitigator:
        """Read a mitigation for a pipeline that is called ``name``.

        Raises
        ------
        ModelNotFoundError, ModelError
            It is not there, is damaged, or was made for another model.
        """
        mitigation, file = read_mitigation(place)
        if mitigation.acts_on == "weights":
            way_out = "it is given as that already; leave this out" if lora else f"give --lora {file.parent}"
            raise ModelError.conflict(f"{file.parent} is a LoRA: {way_out}", field="mitigation")
        made_for = mitigation.made_for
        if mitigation.acts_on not in IN_WORDS and made_for.get("weights_sha256") != weights_sha256:
            raise ModelError.mismatch(
                f"its {mitigation.acts_on} mitigation was made for {made_for.get('name')}, and {name} has other "
                "weights; make one for it by clinometer mitigate",
                field="mitigation",
            )
        if mitigation.acts_on in ("text embedding", "unconditional embedding"):
            require_embeddings(pipeline, mitigation.method)
        if mitigation.tensors_sha256 is None:
            return cls(pipeline, mitigation, {})
        from safetensors.torch import load_file

        return cls(pipeline, mitigation, load_file(file.with_name(TENSORS)))

    def completed(self, options: dict[str, Any]) -> dict[str, Any]:
        """Complete settings of a call by those that the mitigation was made at, where nothing else is asked for."""
        wished = {name: value for name, value in options.items() if value is not None}
        made_at: dict[str, Any] = {str(name): value for name, value in self.mitigation.drawn_at.items()}
        if "steps" in made_at:
            made_at["steps"] = int(made_at["steps"])
        return {name: value for name, value in made_at.items() if name not in (options.get("prefer") or {})} | wished

    def intervene(self, prompts: Sequence[str], seeds: Sequence[int], arguments: dict[str, Any]) -> None:
        """Change the embeddings of a batch, and note which group each of its images is drawn to.

        ``arguments`` : of the pipeline's call; those with embeddings are replaced.
        """
        acts_on, spared = self.mitigation.acts_on, [self.mitigation.spares(prompt) for prompt in prompts]
        self._spared = spared
        if acts_on == "cross-attention":
            drawn = [
                self._names.index(self.mitigation.group_of(seed, prompt))
                for prompt, seed in zip(prompts, seeds, strict=True)
            ]
            self._groups = [None if left else group for left, group in zip(spared, drawn, strict=True)]
        elif acts_on == "text embedding":
            embeddings = arguments["prompt_embeds"]
            projection = self._tensors["projection"].to(embeddings)
            changed = torch.tensor([not left for left in spared], device=embeddings.device)[:, None, None]
            arguments["prompt_embeds"] = torch.where(changed, embeddings @ projection.T, embeddings)
        elif acts_on == "unconditional embedding":
            embeddings = arguments["negative_prompt_embeds"]
            offsets = [
                0.0 if left else self.mitigation.offsets.get(p, 0.0) for left, p in zip(spared, prompts, strict=True)
            ]
            alpha = torch.tensor(offsets).to(embeddings)[:, None, None]
            arguments["negative_prompt_embeds"] = embeddings + alpha * self._tensors["direction"].to(embeddings)

    def _gate_lora(self, pipeline: Any) -> None:
        """Disable the LoRA in each layer of the denoising network for images that are spared.

        Of a guided call that is both halves.

        Raises
        ------
        ModelError
            It changes other parts, too, such as a text encoder, which know of no image.
        """

        def gate(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
            if not any(self._spared):
                return output
            left = torch.tensor(self._spared, device=output.device).repeat(len(output) // len(self._spared))
            return torch.where(left.view(-1, *[1] * (output.ndim - 1)), torch.zeros_like(output), output)

        network = network_of(pipeline)
        for part in pipeline.components.values():
            if not isinstance(part, torch.nn.Module):
                continue
            layers = [module for name, module in part.named_modules() if name.rpartition(".")[0].endswith("lora_B")]
            if layers and part is not network:
                raise ModelError.unsupported(
                    f"its LoRA changes a {type(part).__name__}, and a gate can only leave it out of the denoising "
                    "network; give --mitigation none, which takes the LoRA without its gate",
                    field="mitigation",
                )
            for layer in layers:
                layer.register_forward_hook(gate)

    def _steer(self, layer: str, output: torch.Tensor) -> torch.Tensor:
        """Steer what a layer gives at each pixel, (images, pixels, channels); of a guided call, the second half."""
        rows = [(row, group) for row, group in enumerate(self._groups) if group is not None]
        if not rows or len(output) % len(self._groups):
            return output
        first = len(output) - len(self._groups)
        at, groups = torch.tensor([first + row for row, _ in rows]), torch.tensor([group for _, group in rows])
        apart = self._tensors[f"apart/{layer}"][self._step].to(output)  # groups × channels
        middle = self._tensors[f"middles/{layer}"][self._step].to(output)
        steered = steer(output[at], apart, (middle + self.mitigation.strength * apart)[groups])
        return output.index_copy(0, at.to(output.device), steered)


def steer(output: torch.Tensor, apart: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Move each image's pixels within the space between the groups to one place, and keep each pixel's length.

    ``output`` : images × pixels × channels; ``apart`` : groups × channels, which span the space; ``places`` : images ×
    channels, of which only what lies in that space counts.
    """
    basis = torch.linalg.svd(apart.float(), full_matrices=False)
    space = basis.Vh[1e-4 * basis.S.max() < basis.S].to(output)
    moved = output + ((places[:, None] - output) @ space.T) @ space
    length = torch.linalg.vector_norm(output, dim=-1, keepdim=True)
    steered: torch.Tensor = moved * length / torch.linalg.vector_norm(moved, dim=-1, keepdim=True).clamp(min=1e-8)
    return steered


def network_with_attention(pipeline: Any, method: str) -> Any:
    """Return the UNet of a pipeline, whose cross-attention can be steered.

    Raises
    ------
    ModelError
        It has none.
    """
    network = getattr(pipeline, "unet", None)
    if network is None or not cross_attentions(network):
        raise ModelError.unsupported(
            f"method {method} acts on the cross-attention of a UNet, and a {type(pipeline).__name__} has none; use "
            "prompt or balanced",
            field="mitigation",
        )
    return network


def require_embeddings(pipeline: Any, method: str) -> None:
    """Refuse a pipeline whose text embeddings are not those of one text encoder that it is guided by.

    Raises
    ------
    ModelError
        It has several, or encodes its prompts by itself.
    """
    if type(pipeline).__name__ != "StableDiffusionPipeline":
        raise ModelError.unsupported(
            f"method {method} acts on the embeddings of one text encoder, and a {type(pipeline).__name__} has another "
            "way to its prompts; use prompt or balanced",
            field="mitigation",
        )
