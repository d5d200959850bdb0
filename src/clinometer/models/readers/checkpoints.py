"""Readers from transformers: image classifiers, models for visual question answering, and vision-language models.

A checkpoint says by its configuration which of them it is. None is sampled from: answers and probabilities come from
the logits of one forward pass, so a picture is read the same way each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import transformers
from scipy.special import softmax

from clinometer._messages import NONE, OTHERWISE
from clinometer._torch import bytes_of, drop_weights, dtype_name, torch
from clinometer.errors import ModelError
from clinometer.models.batching import Batches
from clinometer.models.encoders._encoding import notes_of, resolve_options
from clinometer.models.encoders.transformers_clip import CHECKPOINT, load_part
from clinometer.models.protocols import Card
from clinometer.models.readers import ASKED_OPENLY, Answer, Question, Reading, not_in_words, open_reading
from clinometer.models.weights import configuration_files, hash_files, locate_files, quiet_loading, weight_files

if TYPE_CHECKING:
    from PIL.Image import Image

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ASKED: Final = "{question}\n{options}\nAnswer with the letter of one option and nothing else."
"""The prompt of a model that chats; an option a line, such as ``A. a man``."""

MOST_TOKENS: Final = 24
"""The most tokens of an answer in words."""

ON_LETTERS: Final = 0.5
"""The least probability of all letters together, as the first word, at which one of them is an answer."""


class _Checkpoint:
    """A model of transformers on its device, which reads images in batches."""

    def __init__(self, model: Any, processor: Any, card: Card, batch_size: int) -> None:
        self.model, self.processor, self.card, self._batches = model, processor, card, Batches(batch_size)

    @property
    def batch_size(self) -> int:
        """Images a forward pass; halved for good when the device runs out of memory."""
        return self._batches.size

    @property
    def weight_bytes(self) -> int:
        """Bytes of the device that the weights take."""
        return bytes_of([self.model])

    def release(self) -> None:
        """Release the weights for good."""
        drop_weights([self.model])

    def _logits(self, images: Sequence[Image], prepare: Callable[[list[Image]], Any]) -> Iterator[np.ndarray]:
        """Yield the logits of each image, in their order."""

        def forward(batch: list[Image]) -> np.ndarray:
            with torch.inference_mode():
                logits = self.model(**self._on_device(prepare(batch))).logits
            return np.asarray((logits[:, -1] if logits.ndim == 3 else logits).double().cpu().numpy())

        return self._by_size(images, forward)

    def _by_size(self, images: Sequence[Image], work: Callable[[list[Image]], Any]) -> Iterator[Any]:
        """Yield what a call of the model gives of each image, in their order.

        Images of one size go together: where a model cuts a larger image into more tokens, no row is padded then, and a
        row depends on its neighbours by floating-point noise at most.
        """
        order = sorted(range(len(images)), key=lambda index: images[index].size)
        results: dict[int, Any] = {}
        for size in dict.fromkeys(images[index].size for index in order):
            indices = [index for index in order if images[index].size == size]
            done = iter(indices)
            for rows in self._batches.results([images[index].convert("RGB") for index in indices], work):
                results.update(zip((next(done) for _ in rows), rows, strict=True))
        return (results[index] for index in range(len(images)))

    def _on_device(self, inputs: Any) -> dict[str, Any]:
        return {
            name: each.to(self.model.device, self.model.dtype if each.is_floating_point() else None)
            for name, each in inputs.items()
            if isinstance(each, torch.Tensor)
        }


class LabelReader(_Checkpoint):
    """Reads by the labels of a classifier, or of a model for visual question answering that chooses among answers.

    ::

        P(group) = Σ softmax(logits)[labels that mean it]        what is left lies on "none of these"

    A label means a group by one of its answer's names (``group``, ``text`` or ``labels``), whatever its case. The
    answer is the most probable of the groups and "none of these"; the reader's word for it is the label.
    """

    def possible_answers(self, question: Question) -> tuple[str, ...]:
        """Return the groups, and "none of these" where there are other labels."""
        if question.is_open and not self.card.settings["asks"]:
            raise not_in_words(self.card, question)
        if question.is_open:
            return ()
        meant = [set(self._labels_of(answer)) for answer in question.answers]
        lacking = [answer.group for answer, labels in zip(question.answers, meant, strict=True) if not labels]
        if lacking:
            labels = list(self.model.config.id2label.values())
            shown = ", ".join(map(repr, labels[:8])) + (", …" if len(labels) > 8 else "")
            raise ModelError.unknown_name(
                f"{self.card.name}: question {question.name}: none of its {len(labels)} labels means {lacking[0]!r}; "
                f"it has {shown}; name those that do under labels: of that answer"
            )
        others = len(self.model.config.id2label) > len(set.union(*meant))
        return (*question.groups, *([NONE] if others else []))

    def read(self, images: Sequence[Image], question: Question) -> list[Reading]:
        """Read each image by the probabilities of its labels; an open question by the most probable one."""
        offered = self.possible_answers(question)
        labels = self.model.config.id2label
        if question.is_open:
            likely = [
                str(labels[int(np.argmax(each))]) for each in self._logits(images, partial(self._prepare, question))
            ]
            return [Reading(label, words=label) for label in likely]
        of_groups = [self._labels_of(answer) for answer in question.answers]
        readings = []
        for logits in self._logits(images, partial(self._prepare, question)):
            chances = softmax(logits)
            shares = [float(chances[labels_of_group].sum()) for labels_of_group in of_groups]
            everything = dict(zip(question.groups, shares, strict=True)) | {NONE: max(1 - sum(shares), 0.0)}
            answer = max(offered, key=everything.__getitem__)
            probabilities = tuple(everything.get(option, 0.0) for option in question.options)
            readings.append(Reading(answer, probabilities, str(labels[int(np.argmax(chances))])))
        return readings

    def _labels_of(self, answer: Answer) -> list[int]:
        return [index for index, label in self.model.config.id2label.items() if str(label).casefold() in answer.names]

    def _prepare(self, question: Question, images: list[Image]) -> Any:
        if self.card.settings["asks"]:
            return self.processor(images=images, text=[question.text] * len(images), return_tensors="pt")
        return self.processor(images=images, return_tensors="pt")


class ChoiceReader(_Checkpoint):
    """Reads by multiple choice: which letter does a model that chats about images begin its answer with?

    ::

        P(option) = softmax(logits of the first word), over the letters alone

    averaged over two orders of the groups, as they are and in reverse: models prefer letters. Where the letters have
    less than half of the probability, it does not answer with one, and the picture has no answer.
    """

    def possible_answers(self, question: Question) -> tuple[str, ...]:
        """Return every option."""
        if question.is_open:
            return ()
        if len(question.options) > len(LETTERS):
            raise ModelError.too_many(
                f"question {question.name}: found {len(question.options)} options, expected 26 at most"
            )
        return tuple(question.options)

    def read(self, images: Sequence[Image], question: Question) -> list[Reading]:
        """Read each image by the letters of its options; an open question by the most probable words."""
        options = self.possible_answers(question)
        if question.is_open:
            return self._in_words(images, question)
        chances, mass = np.zeros((len(images), len(options))), np.zeros(len(images))
        for order in ([*question.groups, *OTHERWISE], [*reversed(question.groups), *OTHERWISE]):
            letters = [self._tokens(letter) for letter in LETTERS[: len(order)]]
            lines = (f"{letter}. {question.options[key]}" for letter, key in zip(LETTERS, order, strict=False))
            prompt = self._chat(ASKED.format(question=question.text, options="\n".join(lines)))
            for row, logits in enumerate(self._logits(images, partial(self._prepare, prompt))):
                by_letter = softmax(logits)
                by_option = np.array([by_letter[tokens].sum() for tokens in letters])
                mass[row] += by_option.sum() / 2
                chances[row] += by_option[[order.index(option) for option in options]] / by_option.sum() / 2
        return [
            Reading(None, reason=f"no letter is answered: all of them have a probability of {on_letters:.2g}")
            if on_letters < self.card.settings["least_on_letters"]
            else Reading(options[int(np.argmax(by_option))], tuple(by_option.tolist()))
            for by_option, on_letters in zip(chances, mass, strict=True)
        ]

    def _in_words(self, images: Sequence[Image], question: Question) -> list[Reading]:
        """Answer by greedy decoding, so the same each time; what has not ended after so many tokens is an essay."""
        prompt = self._chat(ASKED_OPENLY.format(question=question.text))

        def answer(batch: list[Image]) -> list[Reading]:
            inputs = self._on_device(self._prepare(prompt, batch))
            with torch.inference_mode():
                tokens = self.model.generate(**inputs, do_sample=False, max_new_tokens=MOST_TOKENS)
            new = tokens[:, inputs["input_ids"].shape[1] :]
            texts = self.processor.tokenizer.batch_decode(new, skip_special_tokens=True)
            ends = self.model.generation_config.eos_token_id
            stops = torch.tensor(ends if isinstance(ends, list) else [-1 if ends is None else ends]).to(new.device)
            ended = (torch.isin(new, stops).any(dim=1) | (new.shape[1] < MOST_TOKENS)).tolist()
            return [open_reading(text, cut=not has_ended) for text, has_ended in zip(texts, ended, strict=True)]

        return list(self._by_size(images, answer))

    def _chat(self, text: str) -> str:
        content = [{"type": "image"}, {"type": "text", "text": text}]
        prompt: str = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        return prompt

    def _prepare(self, prompt: str, images: list[Image]) -> Any:
        return self.processor(images=[[image] for image in images], text=[prompt] * len(images), return_tensors="pt")

    def _tokens(self, letter: str) -> list[int]:
        """Return the first tokens of an answer that is this letter: by itself, and as a word of its own."""
        coded = self.processor.tokenizer([letter, f" {letter}"], add_special_tokens=False)["input_ids"]
        tokens = list(dict.fromkeys(ids[0] for ids in coded if len(ids) == 1))
        if not tokens:
            raise ModelError.unsupported(
                f"{self.card.name}: its tokenizer has no token for {letter}, so it cannot choose a letter"
            )
        return tokens


def load(
    source: str,
    *,
    batch_size: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    least_on_letters: float = ON_LETTERS,
    offline: bool = False,
    name: str | None = None,
) -> LabelReader | ChoiceReader:
    """Load a reader from a directory or a hub id ``owner/name[@revision]``.

    Parameters
    ----------
    batch_size : images a forward pass (32); it changes a probability by floating-point noise at most.
    device : auto, cpu, cuda, cuda:N, mps.
    dtype : float32 (also for auto), float16, bfloat16.
    least_on_letters : of a model that chats, the least probability of all letters for one of them to be its answer.
    offline : use the local cache only.
    name : the name in the card, where the directory's own says too little.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there, gated, without safetensors, or answers no question about an image.
    """
    checkpoint = locate_files(source, CHECKPOINT, without=["*/*"], offline=offline)
    files = weight_files(checkpoint.name, [checkpoint.path])
    size, chosen_device, chosen_dtype = resolve_options(batch_size, device, dtype)
    config = load_part(checkpoint, transformers.AutoConfig)
    architecture = str((config.architectures or ["a model without a head"])[0])
    asks = architecture.endswith("ForQuestionAnswering")
    chats = architecture.endswith(("ForConditionalGeneration", "ForImageTextToText"))
    kind = (
        transformers.AutoModelForImageClassification if architecture.endswith("ForImageClassification")
        else transformers.AutoModelForVisualQuestionAnswering if asks
        else transformers.AutoModelForImageTextToText if chats
        else None
    )  # fmt: skip
    if kind is None:
        raise ModelError.unsupported(
            f"{checkpoint.name}: a {architecture} answers no question about images; expected an image classifier, a "
            "model for visual question answering or a vision-language model; give a CLIP as clip:NAME"
        )
    unknown = [] if asks or chats else _activation_unsaid(checkpoint.name, config)
    with quiet_loading():
        model, loading = load_part(checkpoint, kind, dtype=chosen_dtype, use_safetensors=True, output_loading_info=True)
    if lacking := sorted(loading["missing_keys"]):
        raise ModelError.incomplete(
            f"{checkpoint.name}: its files lack the weight {lacking[0]}, so its answers would be chance's"
        )
    processor = load_part(checkpoint, transformers.AutoProcessor if asks or chats else transformers.AutoImageProcessor)
    if chats and not getattr(processor, "chat_template", None):
        raise ModelError.unsupported(
            f"{checkpoint.name}: it has no chat template, so nobody knows how to ask it; choose another"
        )
    settings = {
        "asks": asks or chats,
        "dtype": dtype_name(chosen_dtype),
        "configuration_sha256": hash_files(configuration_files([checkpoint.path]), checkpoint.path),
    }
    if chats:
        wording = hashlib.sha256(ASKED.encode()).hexdigest()
        open_wording = hashlib.sha256(ASKED_OPENLY.encode()).hexdigest()
        settings |= {"prompt_sha256": wording, "open_prompt_sha256": open_wording}
        settings |= {"orders": 2, "least_on_letters": least_on_letters}
    cannot = "it names a group or another of its labels; it does not tell several people from one" if not chats else ""
    card = Card(
        kind="reader", name=name or checkpoint.name, family=f"transformers/{type(model).__name__}",
        revision=checkpoint.revision, weights_sha256=hash_files(files, checkpoint.path), settings=settings,
        notes=notes_of(model, transformers, unknown) | ({"cannot": cannot} if cannot else {}),
    )  # fmt: skip
    return (ChoiceReader if chats else LabelReader)(model.to(chosen_device).eval(), processor, card, size)


def _activation_unsaid(name: str, config: Any) -> list[str]:
    """Refuse a classifier whose labels are no alternatives; return what its configuration leaves unsaid of them.

    Raises
    ------
    ModelError
        It has one label, or each of its labels is true or not by itself.
    """
    labels, problem = list(config.id2label.values()), config.problem_type
    if problem not in (None, "single_label_classification"):
        raise ModelError.unsupported(
            f"{name}: found problem_type {problem} in config.json, so its labels are no alternatives of which one is "
            "read; expected single_label_classification; choose another classifier"
        )
    if len(labels) < 2:
        raise ModelError.too_few(
            f"{name}: it has the one label {labels[0] if labels else ''!r}, and every picture would be read as that; "
            "expected a label for each answer; choose another classifier"
        )
    return [] if problem else ["activation (softmax is taken: config.json names no problem_type)"]
