// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"regexp"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/prom"
)

// ownerResolver returns the workload of a pod that may no longer exist: from the pod in the cluster, or from its recorded labels,
// or from its name.
type ownerResolver struct {
	pods       map[cluster.Key]*cluster.Pod   // the pods that exist
	labels     map[cluster.Key]prom.Labels    // the labels that Prometheus recorded
	candidates map[string]*candidateWorkloads // by namespace
}

// add adds a workload whose pods are to be found.
func (r *ownerResolver) add(c candidateWorkload) {
	cluster.Memo(&r.candidates, c.workload.Namespace, func() *candidateWorkloads { return &candidateWorkloads{} }).add(c)
}

// workload returns the workload of a pod, or zero if it is none of the candidates. If several candidates match, the first one
// is returned; a match by labels precedes a match by name.
func (r *ownerResolver) workload(key cluster.Key) cluster.Workload {
	if pod := r.pods[key]; pod != nil {
		return pod.Top
	}
	candidates := r.candidates[key.Namespace]
	if candidates == nil {
		return cluster.Workload{}
	}
	podLabels, labelled := r.labels[key]
	i := -1
	if labelled {
		i = candidates.matchLabels(podLabels)
	}
	if i < 0 {
		i = candidates.matchName(key.Name, labelled)
	}
	if i < 0 {
		return cluster.Workload{}
	}
	return candidates.all[i].workload
}

// candidateWorkloads are the candidates of a namespace. The indexes limit the number of candidates that are compared with a pod.
type candidateWorkloads struct {
	all     []candidateWorkload
	byName  map[string][]int            // indices in all, by workload name
	byLabel map[string]map[string][]int // indices in all, by label and value, from one requirement of the selector
	other   []int                       // indices in all of selectors that require no label value
}

func (cs *candidateWorkloads) add(c candidateWorkload) {
	i := len(cs.all)
	cs.all = append(cs.all, c)
	cluster.Put(&cs.byName, c.workload.Name, append(cs.byName[c.workload.Name], i))
	requirements, _ := c.selector.Requirements()
	for _, q := range requirements {
		switch q.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			values := cluster.Memo(&cs.byLabel, q.Key(), func() map[string][]int { return map[string][]int{} })
			for v := range q.Values() {
				values[v] = append(values[v], i)
			}
			return
		}
	}
	if len(requirements) > 0 {
		cs.other = append(cs.other, i)
	}
}

// first returns the lowest of the indices whose candidate matches, or found if that is lower. found is -1 if there is none yet.
func (cs *candidateWorkloads) first(found int, indices []int, matches func(*candidateWorkload) bool) int {
	for _, i := range indices {
		if found >= 0 && i >= found {
			break
		}
		if matches(&cs.all[i]) {
			return i
		}
	}
	return found
}

// matchLabels returns the index of the first candidate whose selector matches the labels, or -1.
func (cs *candidateWorkloads) matchLabels(l prom.Labels) int {
	matches := func(c *candidateWorkload) bool { return c.selector.Matches(l) }
	found := cs.first(-1, cs.other, matches)
	for label, values := range cs.byLabel {
		if v, ok := l.Lookup(label); ok {
			found = cs.first(found, values[v], matches)
		}
	}
	return found
}

// matchName returns the index of the first candidate whose pods have names like this one, or -1. labelled is true if
// matchLabels found no match; candidates with a known selector are then excluded, because the selector is more reliable.
func (cs *candidateWorkloads) matchName(pod string, labelled bool) int {
	found := -1
	for end := range len(pod) {
		if pod[end] != '-' {
			continue
		}
		found = cs.first(found, cs.byName[pod[:end]], func(c *candidateWorkload) bool {
			return c.name.MatchString(pod) && !(labelled && c.hasSelector())
		})
	}
	return found
}

// A candidateWorkload is a workload whose pods are to be found.
type candidateWorkload struct {
	workload cluster.Workload
	selector labels.Selector // labels.Nothing() if unknown
	name     *regexp.Regexp  // matches the names of its pods
}

func (c *candidateWorkload) hasSelector() bool {
	requirements, known := c.selector.Requirements()
	return known && len(requirements) > 0
}

// podName returns a pattern for the pod names of a workload. Kubernetes generates the random parts from an alphabet without
// vowels, so a pod of workload "web-api" does not match the pattern of workload "web".
func podName(w cluster.Workload) *regexp.Regexp {
	const random = `[bcdfghjklmnpqrstvwxz2456789]{5}`
	suffix := map[string]string{
		"Deployment":  `[bcdfghjklmnpqrstvwxz2456789]{6,10}-` + random,
		"StatefulSet": `[0-9]+`,
		"CronJob":     `[0-9]{8,11}-(?:[0-9]+-)?` + random,
		"Job":         `(?:[0-9]+-)?` + random,
	}[w.Kind]
	suffix = cmp.Or(suffix, `(?:[bcdfghjklmnpqrstvwxz2456789]{6,10}-)?(?:`+random+`|[0-9]+)`)
	return regexp.MustCompile("^" + regexp.QuoteMeta(w.Name) + "-" + suffix + "$")
}
