"""What the package makes of scikit-learn's private names."""

from sktransfer.utils._sklearn import StrOptions


def test_options_are_listed_in_alphabetical_order():
    """A set has another order in every process."""
    options = {f"{letter}{number}" for letter in "cab" for number in range(9)}
    listed = str(StrOptions(options)).removeprefix("a str among {").removesuffix("}")
    assert listed.split(", ") == [repr(each) for each in sorted(options)]
    assert StrOptions(options).is_satisfied_by("a1")
    assert not StrOptions(options).is_satisfied_by("a10")
