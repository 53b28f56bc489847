// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// effective: evictions, deletions and surges whose replacement has the requests of the pod that it replaces are rare, whatever the reason
// for them is. The webhook is not called for such pods, or another webhook resets their requests.
func effective(j *judgement) (out []Violation) {
	replaces := map[Ref][]replacing{}
	surges := map[string]bool{} // UIDs of pods that a surge replaces
	for _, w := range j.writes {
		if !w.isPodfits() || !w.OK() {
			continue
		}
		uid := ""
		switch {
		case w.isEviction(), w.isDeletion():
			uid = j.uid(w)
		case w.isSurge():
			if uid = surged(w.Body); surges[uid] {
				continue // a later step of the same surge
			}
			surges[uid] = true
		}
		if p := j.then(uid, w); p != nil && !p.isPlaceholder() && p.Controller != (Ref{}) {
			replaces[j.top(p)] = append(replaces[j.top(p)], replacing{w, p})
		}
	}
	created := j.created()
	for _, workload := range slices.SortedFunc(maps.Keys(replaces), func(a, b Ref) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		futile := withoutEffect(replaces[workload], created[workload])
		for _, burst := range bursts(futile, j.Futile, j.FutileWithin) {
			v := repeated(Effective, burst, "pods are replaced by pods with the same requests")
			v.Object = fmt.Sprintf("%s %s/%s", workload.Kind, workload.Namespace, workload.Name)
			out = append(out, v)
		}
	}
	return out
}

// A replacing is a write that replaces a pod.
type replacing struct {
	write *Write
	pod   *Pod // as it was at that time
}

// surgedUID matches the UID in the record of a surge, which is JSON in a string.
var surgedUID = regexp.MustCompile(`\\"uid\\":\\"([^"\\]+)\\"`)

// surged returns the UID of the pod that a surge replaces, by the body of a write to its Deployment; "" if it has none.
func surged(body string) string {
	found := surgedUID.FindStringSubmatch(body)
	if found == nil {
		return ""
	}
	return found[1]
}

// created returns the first observed state of each pod, by workload and in the order of creation.
func (j *judgement) created() map[Ref][]*Pod {
	out := map[Ref][]*Pod{}
	for _, states := range j.pods {
		top := j.top(states[0])
		out[top] = append(out[top], states[0])
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b *Pod) int {
			return cmp.Or(a.Created.Compare(b.Created), a.At.Compare(b.At), strings.Compare(a.UID, b.UID))
		})
	}
	return out
}

// withoutEffect returns the writes whose replacement has the requests of the pod that it replaces. The first pod that is created after a write
// and replaces no earlier one is its replacement.
func withoutEffect(all []replacing, created []*Pod) (out []*Write) {
	for _, r := range all {
		after := r.write.At.Truncate(time.Second) // times of creation are in whole seconds
		i := slices.IndexFunc(created, func(p *Pod) bool { return !p.Created.Before(after) && p.UID != r.pod.UID })
		if i < 0 {
			continue // it is not replaced yet
		}
		replacement := created[i]
		created = slices.Delete(slices.Clone(created), i, i+1)
		if !replacement.Boosted && !replacement.Unreviewed && fmt.Sprint(replacement.Requests) == fmt.Sprint(r.pod.Requests) {
			out = append(out, r.write)
		}
	}
	return out
}
