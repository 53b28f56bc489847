// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package differential

// A Difference is where podfit means to give another result than upstream.
type Difference struct {
	Name     string
	Weakness string // what of upstream it mends, as docs/migrate.md numbers it; "" when it is no weakness
	Upstream string // what upstream does
	Podfit   string // what podfit does
	Reason   string
	Test     string // shows both
}

// Differences are all there are. A comparison that fails without one of them has found a mistake.
var Differences = []Difference{
	{
		Name: "no data, no number", Weakness: "W-01",
		Upstream: "recommends the floor for a resource it has no sample of",
		Podfit:   "recommends nothing for that resource, and leaves a container out of which it knows nothing",
		Reason:   "the floor would evict every pod that asks for more when metrics are missing",
		Test:     "TestNoNumberWithoutSamples",
	},
	{
		Name: "own confidence", Weakness: "W-06",
		Upstream: "widens the bounds of memory by how many samples of CPU there are",
		Podfit:   "by how many of memory there are; the same as long as samples have both",
		Reason:   "one says nothing about the other",
		Test:     "TestEachResourceHasItsOwnConfidence",
	},
	{
		Name: "zero memory", Weakness: "W-05",
		Upstream: "takes a missing value for a use of zero, and ignores the rest of a memory window that starts with one",
		Podfit:   "takes no sample of it",
		Reason:   "no running container uses no memory (kubernetes/autoscaler#8982)",
		Test:     "TestZeroMemoryDoesNotFreezeTheWindow",
	},
	{
		Name: "one OOM kill counts once", Weakness: "W-07",
		Upstream: "takes an OOM kill as often as it is told of it, and is told only of changes that it sees happen",
		Podfit:   "takes each once, read off the pod's status whenever that is seen",
		Reason:   "none is missed while nobody looks, and none counts twice after a restart",
		Test:     "TestAnOOMKillCountsOnce",
	},
	{
		Name: "windows survive", Weakness: "W-08",
		Upstream: "forgets at a restart the memory peaks of windows under way, with the OOM kills in them",
		Podfit:   "keeps them beside the checkpoint",
		Reason:   "what was learnt from an OOM kill must not be lost",
		Test:     "TestARestartKeepsTheWindowsUnderWay",
	},
	{
		Name: "overrides end", Weakness: "W-09",
		Upstream: "keeps what an autoscaler once set for a container when it is no longer set",
		Podfit:   "goes back to the flags",
		Reason:   "the object says what holds",
		Test:     "TestOverridesEndWithThePolicy",
	},
	{
		Name: "intervals change at once", Weakness: "W-09",
		Upstream: "finishes the memory window under way with the interval with which it began",
		Podfit:   "ends it when the new interval says so",
		Reason:   "from 24 hours to one, it would take a day until the change shows",
		Test:     "TestAnotherIntervalHoldsAtOnce",
	},
	{
		Name: "live containers", Weakness: "W-10",
		Upstream: "splits the floor over every container the pods ever had, and recommends for all of them",
		Podfit:   "over those that live pods have; with no live pod, those they last had",
		Reason:   "a removed sidecar must not halve the floor for a week (kubernetes/autoscaler#6744)",
		Test:     "TestTheFloorIsSplitOverLiveContainers",
	},
	{
		Name: "history stays", Weakness: "W-03",
		Upstream: "drops history when the target cannot be resolved for a moment",
		Podfit:   "keeps it",
		Reason:   "a moment without the API server is not a reason to forget (kubernetes/autoscaler#9891)",
		Test:     "TestHistoryStaysWhenTheTargetIsLost",
	},
	{
		Name: "one history", Weakness: "W-04",
		Upstream: "keeps a history for each set of labels and adds them up for each recommendation, in random order",
		Podfit:   "keeps one for each container of a workload",
		Reason: "it does not grow with rollouts; sums differ by rounding only, which shows where exactly the share that a percentile " +
			"asks for is reached at the edge of a bucket, and by what upstream drops because it is lighter than epsilon",
		Test: "TestRolloutsChangeNothingButRounding",
	},
	{
		Name: "labels of pods as a vector", Weakness: "W-29",
		Upstream: "wants a matrix for the labels of pods, which no instant query answers with, the default one neither, and then drops all history",
		Podfit:   "takes both kinds of answer; without labels, pods that have gone are known by their names",
		Reason:   "the defaults must work",
		Test:     "TestLabelsOfPodsMayComeAsAVector",
	},
	{
		Name: "what was read of Prometheus stays", Weakness: "W-29",
		Upstream: "drops all history when one query fails",
		Podfit:   "keeps what was read until then",
		Reason:   "less history is better than none",
		Test:     "TestWhatWasReadOfPrometheusIsKept",
	},
	{
		Name: "series without a container", Weakness: "W-29",
		Upstream: "drops all history when one series lacks a label",
		Podfit:   "leaves that series out",
		Reason:   "one odd series must not cost everybody's history",
		Test:     "TestSeriesWithoutLabelsAreLeftOut",
	},
	{
		Name: "impossible values of Prometheus", Weakness: "W-29",
		Upstream: "takes what is negative for zero, and what is infinite for the greatest amount there is",
		Podfit:   "rejects both",
		Reason:   "neither has been measured",
		Test:     "TestImpossibleValuesOfPrometheusAreRejected",
	},
	{
		Name: "two series of one container", Weakness: "W-29",
		Upstream: "takes of each moment the value of whichever series comes first",
		Podfit:   "takes the larger",
		Reason:   "two scrapers, or a container before and after its restart, are one container; the answer's order means nothing",
		Test:     "TestTwoSeriesOfOneContainerAreOne",
	},
	{
		Name: "silence is not absence", Weakness: "W-03",
		Upstream: "forgets a container 8 days after its last sample, though it runs, or ran last",
		Podfit:   "forgets it then only when it runs no more and another does, or when no autoscaler names the workload",
		Reason:   "a monthly job starts with what it learnt in the last run, and an outage of metrics loses nothing (kubernetes/autoscaler#9891)",
		Test:     "TestSilenceIsNotAbsence",
	},
	{
		Name: "stored history ends, too", Weakness: "W-10",
		Upstream: "keeps what it read from a checkpoint as long as it runs, and reads it again at the next start",
		Podfit:   "forgets it after 8 days like any other history, and deletes the checkpoint",
		Reason:   "a removed container must not be recommended for, and share the floor, for ever (kubernetes/autoscaler#6744)",
		Test:     "TestStoredHistoryEndsToo",
	},
	{
		Name: "memory alone is history", Weakness: "W-06",
		Upstream: "takes a history of memory without CPU for empty, and drops it 8 days after it began",
		Podfit:   "keeps it as long as it goes on",
		Reason:   "its samples are as good as any (kubernetes/autoscaler#10211)",
		Test:     "TestMemoryAloneIsHistory",
	},
	{
		Name:     "implausible samples",
		Upstream: "takes any amount that is not negative",
		Podfit:   "rejects more than 100,000 cores or 100 TB",
		Reason:   "no machine has that; one broken source would lift a recommendation for days",
		Test:     "TestImplausibleSamplesAreRejected",
	},
	{
		Name:     "order of the bounds",
		Upstream: "gives a lower bound above the target when the flags for the percentiles say so",
		Podfit:   "keeps lower ≤ target ≤ upper whatever the flags say",
		Reason:   "otherwise no pod is ever inside its bounds, and each is evicted again and again",
		Test:     "TestBoundsKeepTheirOrder",
	},
	{
		Name:     "checkpoints that cannot be",
		Upstream: "loads a total that is not a number or infinite, weights without a reference time, and samples whose first is later than the last",
		Podfit:   "refuses them",
		Reason:   "nothing can have written them, and they make every later number nonsense",
		Test:     "TestCheckpointsThatCannotBeAreRefused",
	},
	{
		Name: "no panic", Weakness: "W-11",
		Upstream: "panics where a pod LimitRange meets a container without a recommendation or without bounds, and writes requests of zero",
		Podfit:   "counts what such a container requests, and leaves it alone",
		Reason:   "a crash stops every workload",
		Test:     "TestFitEqualsUpstream",
	},
	{
		Name:     "no amount below zero",
		Upstream: "rounds a share of a pod LimitRange that is less than a byte to minus one byte",
		Podfit:   "to zero",
		Reason:   "the API server refuses such a pod, so that none is created any more",
		Test:     "TestNoAmountIsBelowZero",
	},
	{
		Name: "order of the bounds on a pod", Weakness: "W-12",
		Upstream: "scales target and bounds into a LimitRange each on its own, so that the target may end up outside of its bounds",
		Podfit:   "moves the bounds to the target",
		Reason:   "a pod with its target would be evicted for ever (kubernetes/autoscaler#8776)",
		Test:     "TestFitEqualsUpstream",
	},
	{
		Name: "the same size", Weakness: "W-13",
		Upstream: "evicts a pod whose replacement would get the same size",
		Podfit:   "leaves it",
		Reason:   "the eviction cannot help (kubernetes/autoscaler#9362)",
		Test:     "TestPodsToUpdateEqualUpstream",
	},
	{
		Name: "requirements of a missing request", Weakness: "W-27",
		Upstream: "lets a missing CPU or memory request pass all eviction requirements",
		Podfit:   "only those that name the missing resource",
		Reason:   "the others are as true or false as before",
		Test:     "TestPodsToUpdateEqualUpstream",
	},
	{
		Name: "who counts as running", Weakness: "W-14",
		Upstream: "counts pods that are not ready as running, and lets all pods of a controller of an unknown kind be disrupted at once",
		Podfit:   "counts ready pods, and reads the scale of any kind",
		Reason:   "two thousand pods were evicted in a quarter of an hour (kubernetes/autoscaler#2178)",
		Test:     "TestTranscripts", // core/plan: budget.txt, kinds.txt; the comparison has only ready pods of kinds that upstream knows
	},
	{
		Name: "a deferred resize is left alone", Weakness: "W-19",
		Upstream: "in mode InPlace patches again each minute what is deferred, infeasible or failed, whatever the budget",
		Podfit:   "waits until something has changed",
		Reason:   "the same patch has the same answer",
		Test:     "TestTranscripts", // core/plan: resizing.txt
	},
	{
		Name: "how long a resize takes", Weakness: "W-20",
		Upstream: "counts from when it first saw a pod of that name wait",
		Podfit:   "from the time of the condition, of this very pod",
		Reason:   "a StatefulSet's new pod inherited the clock of the old one, and was evicted at once",
		Test:     "TestTranscripts", // core/plan: clock.txt; in the comparison no time passes
	},
	{
		Name: "a target is required", Weakness: "W-16",
		Upstream: "has a check that can never fire",
		Podfit:   "refuses an autoscaler without a target",
		Reason:   "it does nothing, and nobody is told",
		Test:     "TestATargetIsRequired",
	},
	{
		Name:     "an update may mend",
		Upstream: "refuses an update of an object that could not be read before",
		Podfit:   "lets it pass when it can be read now",
		Reason:   "else it could only be deleted",
		Test:     "TestAnUpdateMayMendWhatCannotBeRead",
	},
	{
		Name:     "an update that leaves the spec alone",
		Upstream: "checks it like any other",
		Podfit:   "lets it pass",
		Reason:   "labels must be changeable and finalizers removable, whatever was once let in",
		Test:     "TestAnUpdateThatLeavesTheSpecAlonePasses",
	},
	{
		Name:     "names of fields",
		Upstream: "reads them without regard to case",
		Podfit:   "as they are written",
		Reason:   "the API server drops what is written otherwise, so upstream checks what will not be stored",
		Test:     "TestNamesOfFieldsAreCaseSensitive",
	},
	{
		Name:     "a multiple of nothing",
		Upstream: "boosts a request that is not there to zero",
		Podfit:   "leaves it unset",
		Reason:   "a container whose limit is its request would be guaranteed nothing",
		Test:     "TestAMultipleOfNothingIsNoBoost",
	},
	{
		Name:     "quantities in flags",
		Upstream: "takes a negative one for no bound, and refuses an empty one",
		Podfit:   "refuses the former, and takes the latter for no bound",
		Reason:   "no container can have less than nothing; an empty value is the default",
		Test:     "TestFlagsTakeTheValuesThatUpstreamTakes",
	},
}
