"""Operator ids are Flink's."""

import pytest

from penstock.model.operator_ids import murmur3_128, operator_id


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        ("source-id", "bd9c186e89cc37a76d776844dfa8ccba"),
        ("mapper-id", "c9cecfed5cae9d489451c50e442666e3"),
        ("my-uid", "8409efe6adc6d20787611f16017c808f"),
        ("uid1", "56669276f6f08c868fc17f16b2a5b825"),
    ],
)
def test_o1_the_id_of_a_uid_is_its_murmur3_hash(uid: str, expected: str) -> None:
    assert operator_id(uid) == expected


def test_o1_texts_of_every_length_are_hashed_differently() -> None:
    texts = ["x" * length for length in range(50)]
    assert len({operator_id(text) for text in texts}) == 50
    assert murmur3_128(b"").hex() == "0" * 32


def test_o3_an_id_is_its_own_id() -> None:
    assert operator_id("8409efe6adc6d20787611f16017c808f") == "8409efe6adc6d20787611f16017c808f"
    assert operator_id("8409EFE6ADC6D20787611F16017C808F") != "8409EFE6ADC6D20787611F16017C808F"
