// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"cmp"
	"slices"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
)

// A book has the usage history of all reviewed workloads for one profile, and computes recommendations from it, by the same functions and
// in the same order as the recommender.
type book struct {
	profile   string // "": the profile of each VPA, or defaultProfile
	stored    bool   // usage is what the cluster has stored
	scene     *scene
	store     *usage.Store
	workloads sizing.Workloads
	sizedBy   map[cluster.Workload]*cluster.Autoscaler
}

// newBook returns a book without usage that tracks the pods of the reviewed workloads.
func newBook(profile string, s *scene) *book {
	b := &book{profile: profile, scene: s, store: usage.NewStore(usage.DefaultConfig()), workloads: sizing.Workloads{}, sizedBy: map[cluster.Workload]*cluster.Autoscaler{}}
	b.store.Tick(s.Now)
	assignments := make(sizing.Assignments, len(s.workloads))
	for _, w := range s.workloads {
		a := b.autoscaler(w)
		b.sizedBy[w.key] = a
		b.store.Configure(w.key, nil)
		assignments[w.key] = sizing.Assignment{Choice: s.catalog.Of(a), By: a}
	}
	b.workloads.Apply(b.store, s.Now, s.snapshot, assignments, fleet.NewNodes(s.Nodes, s.Selectors))
	return b
}

// track adds the pods of the reviewed workloads. Nothing is restored after it.
func (b *book) track() {
	b.workloads.SkipRestore()
	for _, p := range b.scene.snapshot.Pods {
		if b.sizedBy[p.Top] != nil {
			b.store.Track(p)
		}
	}
}

// autoscaler returns the VPA of a workload with the profile of the book, or one without policies if the workload has none.
func (b *book) autoscaler(w *workload) *cluster.Autoscaler {
	a := cluster.Autoscaler{
		Key: cluster.Key{Namespace: w.key.Namespace, Name: w.key.Name}, Target: w.key, Mode: cluster.Off, Recommender: defaultProfile, Horizontal: w.hpas,
	}
	if w.vpa != nil {
		a = *w.vpa
		a.IntegerCPU = nil // only with a flag of the recommender
	}
	a.Recommender = cmp.Or(b.profile, a.Recommender)
	return &a
}

// usesOwn reports whether a VPA is sized by the profile of the book, so that the recommendation in its status is the one that is wanted.
func (b *book) usesOwn(w *workload) bool {
	return w.vpa != nil && (b.profile == "" || b.profile == w.vpa.Recommender || b.profile == "default" && b.scene.catalog.Of(w.vpa).Name == "default")
}

// advise returns the recommendation for a workload, as the recommender writes it to the status of a VPA.
func (b *book) advise(w *workload) []cluster.Advice {
	a := b.sizedBy[w.key]
	choice := b.scene.catalog.Of(a)
	if !choice.Usable {
		return nil
	}
	p := b.workloads.Profile(choice, w.key)
	recommended := recommend.Workload(p.Params, p.Estimator, b.store, a, w.key, b.scene.Now)
	return policy.Cap(a, recommended, cluster.Resources{}, p.Node)
}

// packing reports whether the profile sizes a workload for full nodes, and why one of its containers is not, "" if it is. Of a recommendation in the
// status of a VPA it says nothing: that has the condition PackingNotPossible.
func (b *book) packing(w *workload, container string) (packs bool, why string) {
	choice := b.scene.catalog.Of(b.sizedBy[w.key])
	history := b.store.Series(w.key, container)
	if !choice.Usable || history == nil || b.stored && (b.usesOwn(w) || !history.Recalled()) {
		return false, ""
	}
	p := b.workloads.Profile(choice, w.key)
	return p.Packs(), recommend.PackingProblems[p.PackingProblem(history)]
}

func target(advice []cluster.Advice, container string) cluster.Resources {
	if a := cluster.Find(advice, func(a *cluster.Advice) bool { return a.Container == container }); a != nil {
		return a.Target
	}
	return cluster.Resources{}
}

// restore adds the stored history of reviewed workloads to a book. A container whose history cannot be restored has no evidence.
func (b *book) restore(from checkpoint.Stored) {
	b.stored = true
	targets := map[cluster.Key]cluster.Workload{}
	var workloads []cluster.Workload
	for _, w := range b.scene.workloads {
		workloads = append(workloads, w.key)
		if w.vpa != nil {
			targets[w.vpa.Key] = w.key
		}
	}
	from.Restore(b.store, targets, workloads)
	b.track()
}

// adviseStored returns the recommendation for a workload from what the cluster has stored: the status of its VPA, or for another profile
// what the stored model state leads to.
func (b *book) adviseStored(w *workload) []cluster.Advice {
	if b.usesOwn(w) {
		return w.vpa.Advice
	}
	advice := b.advise(w)
	if !b.scene.catalog.Of(b.sizedBy[w.key]).Edition.ModelState {
		return advice
	}
	return slices.DeleteFunc(advice, func(a cluster.Advice) bool {
		series := b.store.Series(w.key, a.Container)
		return series == nil || !series.Recalled()
	})
}

func (b *book) storedEvidence(w *workload, container string) review.Evidence {
	history := b.store.Series(w.key, container)
	if history == nil && b.scene.isIdle(w) {
		history = new(usage.ContainerHistory) // no pod is tracked that could have one
	}
	e := review.StoredEvidence(w.vpa, container, history, b.scene.Now)
	if b.scene.unread && w.vpa != nil {
		e.Lack = review.UnreadUsage
	}
	return e
}
