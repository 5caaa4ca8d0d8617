"""Named warnings, so that one kind can be silenced or turned into an error without the others."""

from sklearn.exceptions import FitFailedWarning

__all__ = [
    "AmbiguousTargetWarning",
    "CacheBusyWarning",
    "CacheNotWrittenWarning",
    "CandidateFailedWarning",
    "CheckpointMismatchWarning",
    "ConstantTargetWarning",
    "DamagedCacheWarning",
    "DamagedResultWarning",
    "EnlargedSubsetWarning",
    "FewReferencesWarning",
    "HeadNotLoadedWarning",
    "NoValidationPartWarning",
    "NoiseFloorWarning",
    "NotConvergedWarning",
    "OtherVersionsWarning",
    "ProbabilityNormalizationWarning",
    "RaceNotRunWarning",
    "RandomFeaturesWarning",
    "SharedRowsWarning",
    "SingletonClassWarning",
    "SkippedFilesWarning",
    "StaleCacheWarning",
    "TargetMeasureWarning",
    "TransferabilityWarning",
    "TrialFailedWarning",
    "UndefinedResamplesWarning",
    "UninformativeScoreWarning",
]


class TransferabilityWarning(UserWarning):
    """Base class of every warning of this package."""


class CacheBusyWarning(TransferabilityWarning):
    """Another process is writing the same features, and this one waits for them."""


class CacheNotWrittenWarning(TransferabilityWarning):
    """Extracted features could not be kept on disk; the result does not depend on it."""


class StaleCacheWarning(TransferabilityWarning):
    """Features kept on disk are not what the candidate gives now, and were extracted again."""


class DamagedCacheWarning(TransferabilityWarning):
    """Features kept on disk could not be read back and were extracted again."""


class DamagedResultWarning(TransferabilityWarning):
    """The kept result of a training could not be read back, and the training was done again."""


class AmbiguousTargetWarning(TransferabilityWarning):
    """Whole numbers with hardly any repetition were read as class labels."""


class UninformativeScoreWarning(TransferabilityWarning):
    """A score that carries no information about the features, because any labels give the same."""


class NoValidationPartWarning(TransferabilityWarning):
    """Early stopping was asked for, but no row can be spared to validate on."""


class NoiseFloorWarning(TransferabilityWarning):
    """The features fit a target exactly; its noise variance was set to the stated lower bound."""


class NotConvergedWarning(TransferabilityWarning):
    """An iteration behind a score stopped at its limit of steps; the score is that of its last."""


class ConstantTargetWarning(TransferabilityWarning):
    """An output that is zero for every sample has no evidence and was left out of the score."""


class ProbabilityNormalizationWarning(TransferabilityWarning):
    """Rows given as probabilities did not sum to one and were normalised."""


class RaceNotRunWarning(TransferabilityWarning):
    """No candidate of a race was trained; the metric alone has decided."""


class RandomFeaturesWarning(TransferabilityWarning):
    """A network gives the same rows other features each time, because it draws random numbers."""


class SingletonClassWarning(TransferabilityWarning):
    """A class of a single sample has no variance; a stated lower bound took its place."""


class CandidateFailedWarning(TransferabilityWarning):
    """A candidate could not be fitted, extracted or scored; the others were not affected."""


class TargetMeasureWarning(TransferabilityWarning):
    """The metric that decides has no variant for the measure that was asked for."""


class UndefinedResamplesWarning(TransferabilityWarning):
    """Resamples tell nothing of how scores vary, or some have no score and are left out."""


class FewReferencesWarning(TransferabilityWarning):
    """There are too few references for what was to be learned from them."""


class HeadNotLoadedWarning(TransferabilityWarning):
    """A checkpoint has no classifier layer that fits, so there are no source probabilities."""


class CheckpointMismatchWarning(TransferabilityWarning):
    """All weights of a network are in a checkpoint, but it seems to belong to another network."""


class SkippedFilesWarning(TransferabilityWarning):
    """Image files that can't be read were left out, together with their labels."""


class TrialFailedWarning(TransferabilityWarning, FitFailedWarning):
    """Trials of a search failed; the others were not affected."""


class OtherVersionsWarning(TransferabilityWarning):
    """A search goes on that was begun with other versions of the packages it depends on."""


class EnlargedSubsetWarning(TransferabilityWarning):
    """A subset has far more rows than were asked for, because every class is in it."""


class SharedRowsWarning(TransferabilityWarning):
    """Equal rows are in different groups, which a patient or lesion under two names would be."""
