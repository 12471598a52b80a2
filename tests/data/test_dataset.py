"""Samples are the right tokens, and say where they come from."""

import pickle

import numpy as np
import pytest

from surefoot.data import TokenDataset, TokenFile, TokenWriter


@pytest.fixture
def files(tmp_path):
    """Two sources whose tokens say where they stand: 0..99 and 1000..1044."""
    made = []
    for name, first, lengths in [("a", 0, [7, 50, 1, 42]), ("b", 1000, [20, 25])]:
        with TokenWriter(tmp_path / name, 2) as writer:
            start = first
            for number, length in enumerate(lengths):
                writer.add(f"{name}{number // 2}.txt", number % 2, range(start, start + length))
                start += length
        made.append(TokenFile(tmp_path / name))
    return made


@pytest.fixture
def dataset(files):
    return TokenDataset(files, ["one", "two"], weights=[2, 1], sequence_length=8, seed=5)


def test_windows_step_by_the_sequence_length_and_share_a_token(dataset):
    # (100 - 1) // 8 = 12 windows and (45 - 1) // 8 = 5.
    assert dataset.order.sizes == (12, 5)
    assert len(dataset) == 17
    assert dataset.tokens == 145
    source, epoch, sample = dataset.order.locate(range(200))
    batch = dataset.batch(range(200))
    assert batch.shape == (200, 9)
    assert batch.dtype == np.int64
    expected = (1000 * source + 8 * sample)[:, None] + np.arange(9)
    assert np.array_equal(batch, expected)
    assert epoch.max() > 5


def test_an_epoch_predicts_each_token_once(dataset):
    source, epoch, _ = dataset.order.locate(range(100))
    batch = dataset.batch(range(100))
    targets = batch[(source == 0) & (epoch == 2)][:, 1:]
    assert sorted(targets.ravel().tolist()) == list(range(1, 97))


def test_one_at_a_time_is_the_same(dataset):
    batch = dataset.batch([5, 3, 5])
    assert np.array_equal(batch[0], dataset.sample(5))
    assert np.array_equal(batch[1], dataset.sample(3))
    assert np.array_equal(batch[2], batch[0])
    assert dataset.batch([]).shape == (0, 9)


def test_provenance_names_the_documents_of_every_token(dataset, files):
    for position in range(60):
        tokens = dataset.sample(position)
        where = dataset.provenance(position)
        source = ["one", "two"].index(where.source)
        begins = {"one": [0, 7, 57, 58], "two": [1000, 1020]}[where.source]
        assert where.raw_index == position
        assert where.file == where.documents[0].file
        rebuilt = []
        for span in where.documents:
            name, number = "ab"[source], int(span.file[1]) * 2 + span.document
            assert span.file == f"{name}{number // 2}.txt"
            start = begins[number] + span.token_offset
            rebuilt += range(start, start + span.tokens)
            before = dataset.document_tokens(position, span)
            assert before.tolist() == list(range(begins[number], start))
        assert rebuilt == tokens.tolist()


def test_a_span_of_another_sample_is_refused(dataset):
    spans = {p: dataset.provenance(p).documents for p in range(20)}
    other = next(p for p in spans if not set(spans[p]) & set(spans[0]))
    with pytest.raises(ValueError, match="no part of sample 0"):
        dataset.document_tokens(0, spans[other][0])


def test_epochs_are_those_of_the_source_most_often_repeated(dataset):
    """12 samples and 5, drawn two to one."""
    assert len(dataset) == sum(dataset.order.sizes)
    assert dataset.epochs(0) == 0
    for samples in (1, 7, 18, 19, 100, 10**15):
        drawn = dataset.order._blend.prefix_counts(samples)
        assert dataset.epochs(samples) == max(
            n / size for n, size in zip(drawn, dataset.order.sizes, strict=True)
        )
    for samples in range(1, 60):
        passed = max(dataset.provenance(i).epoch for i in range(samples))
        assert passed < dataset.epochs(samples) <= passed + 1
    # What is skipped is passed over.
    assert dataset.with_skips([(0, 10)]).epochs(8) == dataset.epochs(18)


def test_skips_leave_samples_out_and_keep_the_rest(dataset):
    whole = dataset.batch(range(60))
    less = dataset.with_skips([(10, 14)])
    assert np.array_equal(less.batch(range(56)), np.delete(whole, range(10, 14), axis=0))
    assert less.provenance(10).raw_index == 14
    assert np.array_equal(dataset.batch(range(60)), whole)
    again = less.with_skips([(0, 2)])
    assert np.array_equal(again.batch(range(54)), whole[[*range(2, 10), *range(14, 60)]])


def test_a_worker_process_gets_the_same_samples(dataset):
    copy = pickle.loads(pickle.dumps(dataset.with_skips([(1, 3)])))
    assert np.array_equal(copy.batch(range(40)), dataset.with_skips([(1, 3)]).batch(range(40)))


def test_sources_shorter_than_a_sample_are_refused(files):
    with pytest.raises(ValueError, match="at least one sample"):
        TokenDataset(files, ["one", "two"], sequence_length=45)
    TokenDataset(files, ["one", "two"], sequence_length=44)
