"""The callback in a transformers trainer, counted targets, and a likelihood of unknown noise."""

import copy

import pytest
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.spectral_bridge import (
    NoiseScale,
    SpectralCallback,
    SpectralSettings,
    SpectralTuner,
    attach,
    count_targets,
)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, labels=None):
        logits = self.head(torch.tanh(self.inner(x)))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def rows(count=40):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(count, 6, generator=draw)
    return [{"x": one, "labels": int(one[0] > 0) + int(one[1] > 0)} for one in x]


def collate(batch):
    return {
        "x": torch.stack([one["x"] for one in batch]),
        "labels": torch.tensor([one["labels"] for one in batch]),
    }


def trained(folder, callback, steps=20):
    model = attach(Classifier(), rank=2, targets=["inner", "head"], seed=1)
    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=8, learning_rate=0.02, weight_decay=0.0,
        max_grad_norm=0.0, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=4, logging_steps=5,
        lr_scheduler_type="constant", remove_unused_columns=False,
    )  # fmt: skip
    trainer = Trainer(
        model=model, args=arguments, train_dataset=rows(), data_collator=collate, callbacks=[callback]
    )  # fmt: skip
    trainer.train()
    return model, trainer


def test_the_callback_counts_targets_warms_up_and_reports(tmp_path):
    callback = SpectralCallback(SpectralSettings(every=4))
    _, trainer = trained(tmp_path, callback)
    assert callback.targets == 40
    assert callback.tuner.settings.warmup == 4
    assert callback.tuner.step == 20
    assert callback.tuner.paths.steps == [4, 8, 12, 16, 20, 20]
    assert [item.name for item in callback.report] == ["inner", "head"]
    logged = [entry["total_rank"] for entry in trainer.state.log_history if "total_rank" in entry]
    assert logged[0] == 4


def test_the_callback_does_what_a_plain_loop_does(tmp_path):
    watched, seen = SpectralCallback(SpectralSettings(every=3), targets=40), []
    original = Classifier.forward

    def forward(self, x, labels=None):
        seen.append((x.clone(), labels.clone()))
        return original(self, x, labels)

    Classifier.forward = forward
    try:
        model, _ = trained(tmp_path, watched, steps=8)
    finally:
        Classifier.forward = original
    plain = attach(Classifier(), rank=2, targets=["inner", "head"], seed=1)
    optimizer = torch.optim.AdamW([p for p in plain.parameters() if p.requires_grad], lr=0.02, weight_decay=0.0)
    tuner = SpectralTuner(plain, optimizer, targets=40, settings=SpectralSettings(every=3, warmup=2))
    for x, labels in seen:
        optimizer.zero_grad()
        plain(x=x, labels=labels)["loss"].backward()
        optimizer.step()
    tuner.finish()
    x = torch.randn(5, 6)
    labels = torch.zeros(5, dtype=torch.long)
    assert torch.allclose(model(x=x, labels=labels)["logits"], plain(x=x, labels=labels)["logits"], atol=1e-5)


def test_labels_are_counted_as_the_loss_counts_them():
    causal = {"labels": [[-100, -100, 5, 6], [7, 8, -100, -100]]}
    assert count_targets([causal, causal]) == 6
    assert count_targets([{"labels": torch.tensor([1, 0, -100])}]) == 2
    with pytest.raises(InputError, match="no labels to count"):
        count_targets([{"input_ids": [1]}])
    with pytest.raises(InputError, match="no label that counts"):
        count_targets([{"labels": [[3, -100]]}])


def test_unknown_noise_is_estimated_and_held_fixed_in_the_gradient():
    loss = NoiseScale(smoothing=0.5)
    prediction = torch.tensor([1.0, 3.0], requires_grad=True)
    value = loss(prediction, torch.zeros(2))
    value.backward()
    assert float(value) == pytest.approx(0.5)
    assert prediction.grad.tolist() == pytest.approx([1 / (2 * 5), 3 / (2 * 5)])
    loss(torch.tensor([1.0, 1.0]), torch.zeros(2))
    assert loss.variance == pytest.approx(3)


def test_the_loss_of_true_noise_is_a_half_and_its_scale_cancels():
    draw = torch.Generator().manual_seed(0)
    residual = torch.randn(200_000, generator=draw)
    values = [float(NoiseScale()(scale * residual, torch.zeros_like(residual))) for scale in (1.0, 30.0)]
    assert values == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("options", [{"warmup_share": 1.0}, {"targets": 0}])
def test_wrong_callbacks_are_told(options):
    with pytest.raises(InputError):
        SpectralCallback(**options)


def test_several_processes_are_refused():
    arguments = copy.copy(TrainingArguments(output_dir="unused", use_cpu=True, report_to=[]))
    fake = type("Several", (), {"world_size": 2, "__getattr__": lambda self, name: getattr(arguments, name)})()
    with pytest.raises(InputError, match="several processes"):
        SpectralCallback(targets=1).on_train_begin(fake, None, None)
