"""What a step fed the model."""

import pytest

from surefoot.data import samples_of_step


def test_text_and_place_of_every_sample(corpus, folder):
    shown = samples_of_step(corpus, 40, 6)
    batch = corpus.train.batch(range(40, 46))
    assert [s.position for s in shown] == list(range(40, 46))
    for sample, tokens in zip(shown, batch, strict=True):
        assert sample.text == corpus.decode(tokens)
        first = sample.provenance.documents[0]
        text = (folder / first.file).read_bytes().decode() + "<|endoftext|>"
        # Up to the end of the document, the sample reads as the file does from that character on.
        part = sample.text.split("<|endoftext|>")[0]
        inside = part.strip("\ufffd")
        at = text.index(inside, sample.character_offset)
        assert at - sample.character_offset <= 1
        assert sum(span.tokens for span in sample.provenance.documents) == 33


def test_the_offset_is_that_of_the_character_a_sample_begins_in(write, make, tmp_path):
    """Four-byte characters without merges: samples begin inside of them."""
    write(tmp_path / "c", {f"{i}.txt": "ab" + "🙂" * 60 for i in range(6)})
    corpus = make(tmp_path / "c", vocab_size=257, sequence_length=5)
    for sample in samples_of_step(corpus, 0, 200):
        first = sample.provenance.documents[0]
        # Each byte is a token: two letters, then four bytes a character.
        n = first.token_offset
        expected = n if n < 2 else 2 + (n - 2) // 4
        assert sample.character_offset == expected, first


def test_skips_are_respected(corpus):
    plain = samples_of_step(corpus, 0, 30)
    skipped = samples_of_step(corpus, 0, 20, skips=[(5, 15)])
    assert [s.text for s in skipped] == [s.text for s in plain[:5] + plain[15:]]
    assert skipped[5].provenance.raw_index == 15
    assert skipped[5].position == 5


@pytest.mark.parametrize("size", [0])
def test_an_empty_step(corpus, size):
    assert samples_of_step(corpus, 3, size) == []
