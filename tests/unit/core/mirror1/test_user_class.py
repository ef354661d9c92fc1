from __future__ import annotations

import pytest

from mm2.core.mirror1.user_class import UserClass, UserClassError, new_instance


def test_a_class_is_created_with_its_argument_or_without_one() -> None:
    assert new_instance(UserClass(name="collections:OrderedDict", arguments=None)) == {}
    assert new_instance(UserClass(name="fractions:Fraction", arguments="3/4")).denominator == 4


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("no_such_module:Handler", None, "no_such_module:Handler cannot be created: .*no_such_module"),
        ("fractions:Handler", None, "fractions:Handler cannot be created: .*Handler"),
        ("fractions:Fraction", "none", "fractions:Fraction cannot be created: .*none"),
    ],
)
def test_a_class_that_cannot_be_created(name: str, arguments: str | None, message: str) -> None:
    with pytest.raises(UserClassError, match=message):
        new_instance(UserClass(name=name, arguments=arguments))
