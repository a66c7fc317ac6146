"""Runs that accelerate and Lightning save and load are those of the plain loop."""

import accelerate
import lightning.pytorch as lightning
import pytest
import torch
from torch.utils.data import DataLoader

import mixfree.torch as mt
from tests.torch.helpers import MAKERS, flat, loss_of, network, stream, train


@pytest.fixture(params=MAKERS)
def make(request):
    return lambda model: MAKERS[request.param](model, output="average")


def plain_run(make):
    model = network()
    opt = make(model)
    train(model, opt, stream())
    return model, opt


def test_accelerate_loads_what_it_saved(make, tmp_path):
    """A second load that is refused: ``prepare`` is the first."""
    accelerator, samples, start = accelerate.Accelerator(cpu=True), stream(), network()
    model, opt = accelerator.prepare(start, make(start))
    train(model, opt, samples[:31])
    accelerator.save_state(tmp_path)
    train(model, opt, samples[40:])
    accelerator.load_state(tmp_path)
    train(model, opt, samples[31:])
    plain, same = plain_run(make)
    assert torch.equal(flat(model), flat(plain))
    with mt.averaged(opt), same.averaged():
        assert torch.equal(flat(model), flat(plain))


class Module(lightning.LightningModule):
    """Ends an epoch at the average, where its checkpoint is saved."""

    def __init__(self, make, seed):
        super().__init__()
        self.make, self.network = make, network(seed)

    def configure_optimizers(self):
        return self.make(self.network)

    def training_step(self, batch, _):
        return loss_of(self.network, [part[0] for part in batch])

    def on_train_epoch_start(self):
        self.optimizers().train()

    def on_train_epoch_end(self):
        self.optimizers().eval()


@pytest.mark.filterwarnings("ignore")  # Lightning's own, of torch and of small loaders
def test_lightning_resumes_at_the_average(make, tmp_path):
    """An average that the wrapper has swapped in, unknown to the optimiser that is saved."""
    samples, path = stream(), tmp_path / "state.ckpt"
    plain, same = plain_run(make)
    for epochs, seed, rows, resumed in ((1, 0, samples[:31], None), (2, 9, samples[31:], path)):
        module = Module(make, seed)
        trainer = lightning.Trainer(
            accelerator="cpu",
            max_epochs=epochs,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, DataLoader(rows), ckpt_path=resumed)
        trainer.save_checkpoint(path)
    same.eval()
    assert torch.equal(flat(module.network), flat(plain))
    trainer.optimizers[0].train()
    same.train()
    assert torch.equal(flat(module.network), flat(plain))
