"""Build the model and everything that acts on it in a step, as a recipe asks for it."""

import random

import torch

from surefoot.init import initialise, rate_factors, reparametrise
from surefoot.model import Decoder
from surefoot.optim import LossScaler, build_optimizer
from surefoot.recipe import Recipe
from surefoot.signals import Meter
from surefoot.train.guards import build_guards
from surefoot.train.pretrained import weights
from surefoot.train.ranks import Ranks
from surefoot.train.step import TrainStep


def plain_model(recipe: Recipe) -> Decoder:
    """The decoder with the parameters that a run of this recipe trains; their values are not set.

    Args:
        recipe: resolved.
    """
    model = Decoder(recipe.architecture)
    if recipe.init.pretrained is None:
        reparametrise(model, model.roles(), recipe.init)
    return model


def start_weights(model: Decoder, recipe: Recipe) -> None:
    """Give a fresh model its first weights: drawn, or taken from a transformers folder.

    Args:
        model: as :func:`build_step` made it.
        recipe: resolved.
    """
    if recipe.init.pretrained is not None:
        model.load_state_dict(dict(weights(recipe.init.pretrained, recipe)))
        return
    a = recipe.architecture
    initialise(model, model.roles(), recipe.init, width=a.width, layers=a.layers, seed=recipe.seed)


def build_step(recipe: Recipe, ranks: Ranks) -> TrainStep:
    """The model, its optimizer and everything that acts in a step; the weights are not set yet.

    Args:
        recipe: resolved.
        ranks: this process.
    """
    if recipe.training.threads is not None:
        torch.set_num_threads(recipe.training.threads)
    random.seed(recipe.seed)
    torch.manual_seed(recipe.seed)
    a = recipe.architecture
    model = plain_model(recipe).to(ranks.device)
    roles = model.roles()
    optimizer = build_optimizer(
        model,
        recipe.optimizer,
        rate_factors=rate_factors(model, roles, recipe.init, width=a.width),
        roles=roles,
    )
    meter = Meter(
        model, optimizer, sample_every=recipe.signals.sample_every, process_group=ranks.group
    )
    wrapped = ranks.wrap(model)
    if recipe.training.compile:
        wrapped = torch.compile(wrapped)  # type: ignore[assignment]
    scaler = None
    if recipe.precision.compute == "fp16":
        scaler = LossScaler(recipe.precision.initial_loss_scale, device=ranks.device)
    return TrainStep(
        model=model,
        wrapped=wrapped,
        optimizer=optimizer,
        meter=meter,
        ranks=ranks,
        micro_size=recipe.batch.micro_size or recipe.batch.global_size,
        clip_norm=recipe.optimizer.clip_norm,
        z_loss_weight=recipe.loss.z_loss_weight,
        precision=recipe.precision.compute,
        scaler=scaler,
        attention_sequences=recipe.signals.attention_sequences,
        guards=build_guards(model, recipe, ranks.device),
        balance_loss_weight=recipe.loss.balance_loss_weight,
        router_z_loss_weight=recipe.loss.router_z_loss_weight,
    )
