import sys

import numpy as np
import torch
from diffusers import AutoencoderKL

from reference import art, augment, clip, tokenizer, unet, vae
from reference.paths import CACHE

torch.set_num_threads(2)
dev = torch.device("cpu")
p = art.load()


def get_vae():
    path = CACHE / "vae"
    if not path.exists():
        run = vae.train(p, dev)
        model = run.average
        print("raw psnr", vae.psnr(vae.reconstruct(model, p.images[::7], dev), p.images[::7]))
        vae.fold_normalisation(model, *vae.encode(model, p.images, dev))
        print("folded psnr", vae.psnr(vae.reconstruct(model, p.images[::7], dev), p.images[::7]), flush=True)
        model.half().save_pretrained(path)
    return AutoencoderKL.from_pretrained(path).eval()


def latents(model):
    path = CACHE / "latents.pt"
    if not path.exists():
        torch.save(vae.encode(model, p.images, dev), path)
    return torch.load(path)


def get_bank():
    path = CACHE / "bank.npy"
    if not path.exists():
        model = get_vae()
        mean, logvar = latents(model)
        print("latents", mean.mean((0, 2, 3)), mean.std((0, 2, 3)), logvar.exp().mean((0, 2, 3)).sqrt(), flush=True)
        np.save(path, augment.picture_bank(model, p.images, mean, dev))
        print("bank done", flush=True)
    return np.load(path)


if sys.argv[1] == "vae":
    get_vae()
    get_bank()
if sys.argv[1] == "clip":
    tok = tokenizer.train()
    run = clip.train(p, get_bank(), tok, dev)
    run.average.half().save_pretrained(CACHE / "clip")
    tok.save_pretrained(CACHE / "clip")
if sys.argv[1] == "unet":
    from transformers import CLIPModel, CLIPTokenizer

    model = CLIPModel.from_pretrained(CACHE / "clip", dtype=torch.float32).eval()
    tok = CLIPTokenizer.from_pretrained(CACHE / "clip")
    mean, logvar = latents(get_vae())
    run = unet.train(mean, logvar, model.text_model, tok, dev)
    run.average.half().save_pretrained(CACHE / "unet")
