"""Initialisation by role: normal weights that meet the two conditions of Spike No More.

::

    from surefoot.init import initialise
    from surefoot.recipe import Init
    initialise(model, model.roles(), Init(), width=128, layers=8, seed=1)

Any ``nn.Module`` will do, with a map from parameter names to roles (:data:`ROLES`).
"""

from surefoot.init.initialise import ROLES, initialise, standard_deviation

__all__ = ["ROLES", "initialise", "standard_deviation"]
