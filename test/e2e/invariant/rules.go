// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// advised: every eviction and resize, and every attempt at one, is for a pod whose requests are outside the range that a
// recommender has written to the status of its VPA. A resize requests amounts within that range.
func advised(j *judgement) (out []Violation) {
	for _, w := range j.writes {
		gone := w.Code == 404 || w.Code == 409 // the pod was deleted or replaced before the request
		if !w.isPodfits() || !w.isEviction() && !w.isDeletion() && !w.isResize() || gone {
			continue
		}
		states := j.lately(j.uid(w), w)
		if len(states) == 0 || w.isDeletion() && states[0].isPlaceholder() {
			continue // the pod was never observed, or serves nothing
		}
		why := j.unadvised(states, w)
		if why == "" {
			continue
		}
		p := j.then(j.uid(w), w)
		v := Violation{Rule: Advised, At: w.At, Namespace: w.Namespace, Object: w.object(), Text: why, Evidence: []string{
			w.String(), fmt.Sprintf("pod: requests %v, ready %v, OOM-killed %v, owner %v", p.Requests, p.Ready, p.OOM, j.top(p)),
		}}
		for _, a := range j.governing(p, w) {
			v.Evidence = append(v.Evidence, fmt.Sprintf("%s VPA %s, status written by %s: %+v", clock(a.At), a.Name, a.Writer, a.Ranges))
		}
		out = append(out, v)
	}
	return out
}

// fresh: every eviction, deletion and resize follows a recommendation that was written recently. A recommender that is away does not change pods
// by what it recommended long ago.
func fresh(j *judgement) (out []Violation) {
	for _, w := range j.writes {
		if j.Fresh == 0 || !w.isPodfits() || !w.isEviction() && !w.isDeletion() && !w.isResize() || !w.OK() {
			continue
		}
		p := j.then(j.uid(w), w)
		if p == nil || p.isPlaceholder() || p.Boosted && w.isResize() {
			continue
		}
		var last *Autoscaler
		for _, a := range j.governing(p, w) {
			if !a.Recommended.IsZero() && (last == nil || a.Recommended.After(last.Recommended)) {
				last = a
			}
		}
		if last == nil { // advised reports an action without a recommendation
			continue
		}
		if age := w.At.Sub(last.Recommended); age > j.Fresh {
			out = append(out, Violation{
				Rule: Fresh, At: w.At, Namespace: w.Namespace, Object: w.object(), Evidence: []string{w.String()},
				Text: fmt.Sprintf("the recommendation of VPA %s is %v old, more than %v", last.Name, age.Round(time.Second), j.Fresh),
			})
		}
	}
	return out
}

// unadvised returns why none of the recent states of a pod and of its VPAs justifies a write, or "" if one does.
func (j *judgement) unadvised(states []*Pod, w *Write) string {
	why := "no VPA targets the workload of the pod"
	for _, p := range states {
		if p.Boosted && w.isResize() {
			return ""
		}
		for _, a := range j.governing(p, w) {
			switch {
			case len(a.Ranges) == 0:
				why = "the VPA has no recommendation"
			case !accounts[a.Writer]:
				why = fmt.Sprintf("the recommendation was written by %q, not by a recommender", a.Writer)
			case !outside(p, a):
				why = "the requests of the pod are within the recommended range"
			case w.isResize() && !allows(a, w.Requests):
				why = fmt.Sprintf("the resize requests %v, which is outside the recommended range", w.Requests)
			default:
				return ""
			}
		}
	}
	return why
}

// outside reports whether a request of a pod is missing or outside its recommended range. A pod that was OOM-killed or has
// no node is also outside if a request differs from its target.
func outside(p *Pod, a *Autoscaler) bool {
	for _, r := range a.Ranges {
		has, ok := p.Requests[r.Container]
		if !ok {
			continue
		}
		for res, target := range r.Target {
			request, requested := has[res]
			low, high := r.limits(res)
			switch {
			case !requested, request < low, high > 0 && request > high:
				return true
			case request != target && (p.OOM || !p.Scheduled):
				return true
			}
		}
	}
	return false
}

// allows reports whether requests are within the ranges of a VPA.
func allows(a *Autoscaler, requests map[string]Amounts) bool {
	for container, asked := range requests {
		i := slices.IndexFunc(a.Ranges, func(r Range) bool { return r.Container == container })
		if i < 0 {
			return false
		}
		r := a.Ranges[i]
		for res, n := range asked {
			if _, recommended := r.Target[res]; !recommended {
				continue // the request is not managed by the VPA
			}
			least, greatest := r.Lower[res], r.Upper[res]
			if x, ok := r.AllowedLeast[res]; ok {
				greatest = max(greatest, x)
			}
			if x, ok := r.AllowedGreatest[res]; ok {
				least = min(least, x)
			}
			if n < least || n > greatest {
				return false
			}
		}
	}
	return true
}

// limits returns the range of a resource, as far as the policy allows it; 0 means no upper limit.
func (r *Range) limits(res string) (low, high int64) {
	low, high = r.Lower[res], r.Upper[res]
	if least, ok := r.AllowedLeast[res]; ok {
		low = max(low, least)
	}
	if greatest, ok := r.AllowedGreatest[res]; ok && (high == 0 || high > greatest) {
		high = greatest
	}
	return low, high
}

// inBudget: the eviction of a ready pod leaves as many ready pods as the eviction tolerance and each PodDisruptionBudget
// require. No pod is evicted whose controller has fewer live pods than the minimum, unless it is OOM-killed and not ready. Only such pods are
// deleted.
func inBudget(j *judgement) (out []Violation) {
	for _, w := range j.writes {
		if !w.isPodfits() || !w.isEviction() && !w.isDeletion() || !w.OK() {
			continue
		}
		uid := j.uid(w)
		p := j.then(uid, w)
		if p == nil || !p.Scheduled || w.isDeletion() && p.isPlaceholder() {
			continue // its eviction makes nothing unavailable
		}
		serving := j.serving(uid, w)
		crashes := !serving && j.isKilled(uid, w)
		group := j.pick(w, func(q *Pod) bool { return q.Controller == p.Controller })
		if crashes {
			continue
		}
		if w.isDeletion() {
			out = append(out, j.overBudget(w, "a pod is deleted that is ready or was not OOM-killed", group))
			continue
		}
		if text := j.ownBudget(p, group, serving, w); text != "" {
			out = append(out, j.overBudget(w, text, group))
		}
		if serving {
			out = append(out, j.userBudgets(p, w)...)
		}
	}
	return out
}

// isKilled reports whether a container of a pod was OOM-killed in one of the states that a write may be based on.
func (j *judgement) isKilled(uid string, w *Write) bool {
	return slices.ContainsFunc(j.lately(uid, w), func(p *Pod) bool { return p.OOM })
}

// overBudget returns the violation by an eviction, with the states of the pods that count.
func (j *judgement) overBudget(w *Write, text string, uids []string) Violation {
	v := Violation{Rule: InBudget, At: w.At, Namespace: w.Namespace, Object: w.object(), Text: text, Evidence: []string{w.String()}}
	for _, uid := range uids {
		last := j.then(uid, w)
		if last == nil {
			continue
		}
		line := fmt.Sprintf("%s pod %s: ready %v, deleting %v", clock(last.At), last.Name, last.Ready, last.Deleting)
		if at, evicted := j.evictions[uid]; evicted {
			line += ", evicted at " + clock(at)
		}
		v.Evidence = append(v.Evidence, line)
	}
	return v
}

// userBudgets returns a violation for each PodDisruptionBudget that the eviction of a ready pod breaks.
func (j *judgement) userBudgets(p *Pod, w *Write) (out []Violation) {
	for _, name := range slices.Sorted(maps.Keys(j.budgets)) {
		states := around(j, j.budgets[name], w)
		if len(states) == 0 || states[0].Namespace != w.Namespace ||
			slices.ContainsFunc(states, func(b *Budget) bool { return b.Gone || !selects(b, p) }) {
			continue
		}
		wanted := states[0].Healthy
		for _, b := range states {
			wanted = min(wanted, b.Healthy)
		}
		covered := j.pick(w, func(q *Pod) bool { return q.Namespace == w.Namespace && selects(states[0], q) })
		if n := j.count(covered, w, j.served); n-1 < wanted {
			text := fmt.Sprintf("%d pods of PodDisruptionBudget %s are healthy before the eviction, %d must be healthy after it", n, name, wanted)
			out = append(out, j.overBudget(w, text, covered))
		}
	}
	return out
}

// ownBudget returns how an eviction breaks --min-replicas or --eviction-tolerance, or "".
func (j *judgement) ownBudget(p *Pod, group []string, serving bool, w *Write) string {
	least := j.MinReplicas
	for _, a := range j.governing(p, w) {
		if a.MinReplicas > 0 {
			least = a.MinReplicas
		}
	}
	if n := j.count(group, w, j.lived); n < least {
		return fmt.Sprintf("the controller has %d live pods, and the minimum for an eviction is %d", n, least)
	}
	states := around(j, j.controllers[p.Controller], w)
	if !serving || len(states) == 0 {
		return ""
	}
	wanted := states[0].Wanted
	for _, c := range states {
		wanted = min(wanted, c.Wanted)
	}
	tolerance := int(float64(wanted) * j.Tolerance)
	n := j.count(group, w, j.served)
	if n-1 >= wanted-tolerance || tolerance == 0 && n >= wanted {
		return ""
	}
	return fmt.Sprintf("%d of %d pods are ready before the eviction, and %d may be unavailable", n, wanted, tolerance)
}

// pick returns the sorted UIDs of the pods that existed recently and for which holds is true.
func (j *judgement) pick(w *Write, holds func(*Pod) bool) []string {
	var out []string
	for uid := range j.pods {
		if states := j.lately(uid, w); len(states) > 0 && !states[0].Gone && holds(states[len(states)-1]) {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}

func (j *judgement) count(uids []string, w *Write, holds func(string, *Write) bool) (n int) {
	for _, uid := range uids {
		if holds(uid, w) {
			n++
		}
	}
	return n
}

// selects reports whether a budget covers a pod.
func selects(b *Budget, p *Pod) bool { return b.Selector.Matches(labels.Set(p.Labels)) }

// admissionLease is renewed by every admission controller. It elects no leader.
const admissionLease = "vpa-admission-controller"

// soleLeader: a process with leader election makes a leader's writes only while it holds the lease. Its term ends when the
// lease expires after its last renewal, or when another process acquires the lease.
func soleLeader(j *judgement) (out []Violation) {
	type term struct {
		process string // who holds the lease now
		write   *Write // its last renewal
	}
	terms := map[string]term{}    // by lease
	stands := map[string]string{} // the lease of a process with leader election
	for _, w := range j.writes {
		if w.Resource == "leases" && w.isPodfits() && w.Name != admissionLease && w.OK() && w.Lease.Holder != "" {
			stands[w.Process] = key(w.Namespace, w.Name)
		}
	}
	for _, w := range j.writes {
		if !w.isPodfits() {
			continue
		}
		lease, candidate := stands[w.Process]
		if w.Resource == "leases" && w.OK() && key(w.Namespace, w.Name) == lease {
			if w.Lease.Holder == "" {
				terms[lease] = term{write: w}
			} else {
				terms[lease] = term{w.Process, w}
			}
			continue
		}
		if !candidate || !w.isDuty() {
			continue
		}
		t := terms[lease]
		v := Violation{Rule: SoleLeader, At: w.At, Namespace: w.Namespace, Object: w.User + " " + w.Process, Evidence: []string{w.String()}}
		if t.write != nil {
			v.Evidence = append(v.Evidence, t.write.String())
		}
		switch {
		case t.write == nil:
			v.Text = "acts before it acquires " + lease
		case t.process == "":
			v.Text = "acts while no process holds " + lease
		case t.process != w.Process:
			v.Text = "acts while " + t.process + " holds " + lease
		case w.At.After(t.write.At.Add(t.write.Lease.For)):
			v.Text = fmt.Sprintf("acts %v after its last renewal of %s, which expires after %v", w.At.Sub(t.write.At), lease, t.write.Lease.For)
		default:
			continue
		}
		out = append(out, v)
	}
	return out
}

// takesTurns: two processes without leader election do not write the same object alternately. A process may take over an
// object from another one, which then does not write it again.
func takesTurns(j *judgement) (out []Violation) {
	writers := map[string][]*Write{} // by account and object: the last write of each process in order
	for _, w := range j.writes {
		if !w.isPodfits() || !w.isDuty() || !w.OK() {
			continue
		}
		o := w.User + " " + w.object() // the updater writes conditions of the objects that the recommender writes
		all := writers[o]
		i := slices.IndexFunc(all, func(x *Write) bool { return x.Process == w.Process })
		if i >= 0 && i < len(all)-1 && !j.leads(w) {
			out = append(out, Violation{
				Rule: SoleLeader, At: w.At, Namespace: w.Namespace, Object: w.object(), Text: "two processes without leader election write it alternately",
				Evidence: []string{all[i].String(), all[len(all)-1].String(), w.String()},
			})
		}
		if i >= 0 {
			all = slices.Delete(all, i, i+1)
		}
		writers[o] = append(all, w)
	}
	return out
}

// leads reports whether the process of a write has ever held a lease. soleLeader judges such a process.
func (j *judgement) leads(w *Write) bool {
	return slices.ContainsFunc(j.writes, func(x *Write) bool {
		return x.Resource == "leases" && x.Name != admissionLease && x.Process == w.Process && x.OK() && x.Lease.Holder != ""
	})
}

// admitted: the API server refuses no pod that podfit's webhook has changed. A name conflict, a namespace that is being deleted
// and an overloaded server do not count.
func admitted(j *judgement) (out []Violation) {
	for _, w := range j.writes {
		if w.Resource != "pods" || w.Subresource != "" || w.Verb != "create" || w.Shaped == "" || w.DryRun {
			continue
		}
		if strings.HasSuffix(w.Message, "because it is being terminated") || w.Code < 400 || w.Code >= 500 || w.Code == 404 || w.Code == 409 || w.Code == 429 {
			continue
		}
		out = append(out, Violation{
			Rule: Admitted, At: w.At, Namespace: w.Namespace, Object: "pods of " + w.Namespace,
			Text: "the API server refuses a pod that the webhook has changed", Evidence: []string{w.String(), "patch of the webhook: " + w.Shaped},
		})
	}
	return out
}

// settles: the same resize of a pod is not applied repeatedly.
func settles(j *judgement) (out []Violation) {
	type change struct{ uid, body string }
	resizes := map[change][]*Write{}
	for _, w := range j.writes {
		if w.isPodfits() && w.OK() && w.isResize() {
			k := change{j.uid(w), w.Body}
			resizes[k] = append(resizes[k], w)
		}
	}
	for _, all := range resizes {
		for _, burst := range bursts(all, j.Repeats, j.RepeatedWithin) {
			out = append(out, repeated(Settles, burst, "the same resize is applied repeatedly"))
		}
	}
	return out
}

// backsOff: a request that is refused is not repeated at the same pace.
func backsOff(j *judgement) (out []Violation) {
	type request struct{ process, verb, object, body string }
	refused := map[request][]*Write{}
	end := func(r request) {
		for _, burst := range bursts(refused[r], j.Refusals, j.RefusedWithin) {
			out = append(out, repeated(BacksOff, burst, "the same request is refused repeatedly"))
		}
		delete(refused, r)
	}
	for _, w := range j.writes {
		if !w.isPodfits() || w.Resource == "leases" {
			continue
		}
		r := request{w.Process, w.Verb, w.object(), w.Body}
		if w.Code < 400 {
			end(r)
			continue
		}
		refused[r] = append(refused[r], w)
	}
	for _, r := range slices.SortedFunc(maps.Keys(refused), func(a, b request) int { return strings.Compare(a.object, b.object) }) {
		end(r)
	}
	return out
}

// bursts returns each most+1 successive writes that lie within a span of time. A write is in one burst at most.
func bursts(all []*Write, most int, span time.Duration) (out [][]*Write) {
	for i := 0; i+most < len(all); i++ {
		if all[i+most].At.Sub(all[i].At) <= span {
			out = append(out, all[i:i+most+1])
			i += most
		}
	}
	return out
}

func repeated(rule Rule, burst []*Write, what string) Violation {
	first, last := burst[0], burst[len(burst)-1]
	v := Violation{
		Rule: rule, From: first.At, At: last.At, Namespace: last.Namespace, Object: last.object(),
		Text: fmt.Sprintf("%s: %d times in %v", what, len(burst), last.At.Sub(first.At).Round(time.Second)),
	}
	for _, w := range burst {
		v.Evidence = append(v.Evidence, w.String())
	}
	return v
}
