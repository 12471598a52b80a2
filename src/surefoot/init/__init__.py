"""Initialisations on any ``nn.Module``, by the roles of its parameters.

::

    from surefoot.init import start
    start("spike-no-more", seed=1)(model)        # any method of METHODS, any model with a role map

With a recipe's section [init] and a map from parameter names to roles (:data:`ROLES`)::

    from surefoot.init import initialise, rate_factors, reparametrise, roles_of
    from surefoot.recipe import Init
    init = Init(method="megatron")
    reparametrise(model, roles_of(model), init)  # before the optimizer is made; only wesar does
    initialise(model, roles_of(model), init, seed=1)
    rate_factors(model, roles_of(model), init)   # {name: factor on the learning rate}; only mup

Roles are known for surefoot's decoder and the families of transformers in :data:`FAMILIES`; a
method is a file in ``methods/``, a family a table in ``families/``.
"""

from surefoot.init.coordinates import CoordinateCheck, coordinate_check
from surefoot.init.embedding_norm import insert_embedding_norm
from surefoot.init.families import FAMILIES, Family, Fused
from surefoot.init.initialise import initialise, rate_factors, reparametrise, standard_deviation
from surefoot.init.layout import Weight
from surefoot.init.method import METHODS, Method, Spread
from surefoot.init.role_map import roles_of
from surefoot.init.roles import ROLES
from surefoot.init.scaled_matrix import ScaledMatrix
from surefoot.init.shape import Shape, shape_of
from surefoot.init.start import Start, start

__all__ = [
    "FAMILIES",
    "METHODS",
    "ROLES",
    "CoordinateCheck",
    "Family",
    "Fused",
    "Method",
    "ScaledMatrix",
    "Shape",
    "Spread",
    "Start",
    "Weight",
    "coordinate_check",
    "initialise",
    "insert_embedding_norm",
    "rate_factors",
    "reparametrise",
    "roles_of",
    "shape_of",
    "standard_deviation",
    "start",
]
