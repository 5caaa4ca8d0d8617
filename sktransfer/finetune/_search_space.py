"""The space of a search: what a user writes, as distributions of Optuna, and back to parameters."""

from numbers import Integral, Real

from sklearn.base import clone

from sktransfer.finetune._search_sampling import import_optuna

__all__ = ["SearchSpace", "default_space"]

_FORMS = "(low, high), (low, high, 'log'), a list of choices, or a distribution of Optuna"


def default_space(estimator):
    """Give what published studies of medical images search over.

    Parameters
    ----------
    estimator : FineTuneClassifier or FineTuneRegressor
        With ``train="head"``, its learning rate is that of the head.

    Returns
    -------
    space : dict of str to tuple
        The learning rate and the weight decay.
    """
    only_head = estimator.train == "head" and estimator.head_lr is not None
    rate = "head_lr" if only_head else "lr"
    return {rate: (1e-5, 1e-2, "log"), "weight_decay": (1e-6, 1e-2, "log")}


class SearchSpace:
    """Parameters of an estimator and what they may be.

    Parameters
    ----------
    param_distributions : dict of str to tuple, list or distribution, or None
        As the search takes it; None for the default.
    estimator : estimator
        Whose parameters they are.

    Attributes
    ----------
    distributions : dict of str to distribution
        Distributions of Optuna, by sorted names: what a trial gets does not depend on the order in
        which they were written down.
    choices : dict of str to list
        For parameters that are chosen from a list, what is chosen from, where Optuna is told of
        places in the list: it only knows texts and numbers.

    Raises
    ------
    TypeError
        If it is no dict, or something in it has none of the forms.
    ValueError
        If a name is no parameter of the estimator or is ``random_state``, or what it may be makes
        no sense.
    """

    def __init__(self, param_distributions, estimator):
        if param_distributions is None:
            param_distributions = default_space(estimator)
        if not isinstance(param_distributions, dict):
            raise TypeError(
                f"'param_distributions' must be a dict of names of parameters to {_FORMS}; got a "
                f"{type(param_distributions).__name__}."
            )
        if not param_distributions:
            raise ValueError("'param_distributions' is empty: there is nothing to search over.")
        known = estimator.get_params(deep=True)
        unknown = [name for name in param_distributions if name not in known]
        if unknown:
            raise ValueError(
                f"'param_distributions' names {', '.join(map(repr, unknown))}, and "
                f"{type(estimator).__name__} has no such parameter. Its parameters are "
                f"{', '.join(sorted(known))}."
            )
        if "random_state" in param_distributions:
            raise ValueError(
                "'param_distributions' names 'random_state', by which trials would differ in "
                "nothing but luck: a search trains all of them with one seed."
            )
        self.choices = {}
        self.distributions = {
            name: self._distribution(name, param_distributions[name])
            for name in sorted(param_distributions)
        }
        self._check_limits(estimator)

    def __contains__(self, name):
        return name in self.distributions

    def parameters(self, values):
        """Translate what Optuna has chosen.

        Parameters
        ----------
        values : dict of str to object
            Parameters of a trial of Optuna.

        Returns
        -------
        parameters : dict of str to object
            Parameters of the estimator, in sorted order.
        """
        return {
            name: self.choices[name][value] if name in self.choices else value
            for name, value in sorted(values.items())
        }

    def assign(self, estimator, values):
        """Set the parameters of a trial, without touching what the user has passed.

        Parameters
        ----------
        estimator : estimator
            A clone of the user's own.
        values : dict of str to object
            Parameters of a trial of Optuna.

        Returns
        -------
        estimator : estimator
            The same.
        """
        return estimator.set_params(**clone(self.parameters(values), safe=False))

    # -- forms -----------------------------------------------------------------------------------

    def _distribution(self, name, form):
        distributions = import_optuna().distributions
        what = f"'param_distributions' for {name!r}"
        if isinstance(form, distributions.CategoricalDistribution):
            form = list(form.choices)
        if isinstance(form, distributions.BaseDistribution):
            return form
        if isinstance(form, list):
            return self._categorical(name, form, what)
        if not isinstance(form, tuple) or not all(map(_is_number, form[:2])):
            raise TypeError(f"{what} must be {_FORMS}; got {form!r}.")
        if len(form) not in (2, 3) or form[2:] not in ((), ("log",)):
            raise ValueError(f"{what} must be (low, high) or (low, high, 'log'); got {form!r}.")
        low, high = form[:2]
        log = len(form) == 3
        if not low < high:
            raise ValueError(f"{what} must begin with the smaller number; got {form!r}.")
        if log and low <= 0:
            raise ValueError(f"{what} is logarithmic, so it must begin above 0; got {form!r}.")
        if isinstance(low, Integral) and isinstance(high, Integral):
            return distributions.IntDistribution(int(low), int(high), log=log)
        return distributions.FloatDistribution(float(low), float(high), log=log)

    def _categorical(self, name, form, what):
        if not form:
            raise ValueError(f"{what} is an empty list: there is nothing to choose from.")
        atoms = [(type(value), value) for value in form if isinstance(value, Real | str)]
        twice = next((value for kind, value in atoms if atoms.count((kind, value)) > 1), None)
        if twice is not None:
            raise ValueError(f"{what} has the choice {twice!r} twice; got {form!r}.")
        is_plain = all(value is None or type(value) in (bool, int, float, str) for value in form)
        # 1, 1.0 and True would be one choice to Optuna.
        if not is_plain or len(set(form)) < len(form):
            self.choices[name] = list(form)
            form = range(len(form))
        return import_optuna().distributions.CategoricalDistribution(list(form))

    # -- checks ----------------------------------------------------------------------------------

    def _check_limits(self, estimator):
        """Try the ends of ranges and every choice on the parameters that are the estimator's own.

        What is nested is checked by whom it belongs to, in a fit.
        """
        own = estimator.get_params(deep=False)
        for name, distribution in self.distributions.items():
            if name not in own:
                continue
            if name in self.choices:
                values = self.choices[name]
            elif hasattr(distribution, "choices"):
                values = distribution.choices
            else:
                values = distribution.low, distribution.high
            for value in values:
                try:
                    type(estimator)(**{**own, name: value})._validate_params()
                except (TypeError, ValueError) as error:
                    raise ValueError(
                        f"'param_distributions' for {name!r} allows {value!r}, which the estimator "
                        f"does not take: {error}"
                    ) from error


def _is_number(value):
    return isinstance(value, Real) and not isinstance(value, bool)
