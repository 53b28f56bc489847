// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package invariant

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is a time some seconds after the start.
func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

var web = Ref{"ReplicaSet", "shop", "web-1"}

// shop is a workload of ready pods that request 100m, while 350m are recommended.
func shop(replicas int) Log {
	l := Log{
		Controllers: []Controller{{At: at(0), Ref: web, Owner: Ref{"Deployment", "shop", "web"}, Wanted: replicas}},
		Autoscalers: []Autoscaler{{
			At: at(0), Namespace: "shop", Name: "web", Target: Ref{"Deployment", "shop", "web"}, Writer: "vpa-recommender", Recommended: at(0),
			Ranges: []Range{{Container: "app", Lower: Amounts{"cpu": 300}, Target: Amounts{"cpu": 350}, Upper: Amounts{"cpu": 1000}}},
		}},
	}
	for i := range replicas {
		l.Pods = append(l.Pods, pod(0, i, func(*Pod) {}))
	}
	return l
}

// pod is a state of one of the pods of the shop.
func pod(seconds float64, n int, change func(*Pod)) Pod {
	p := Pod{
		At: at(seconds), Namespace: "shop", Name: fmt.Sprintf("web-%d", n), UID: fmt.Sprintf("uid-%d", n), Controller: web,
		Created: at(-100), Labels: map[string]string{"app": "web", "role": map[bool]string{true: "primary", false: "replica"}[n == 0]},
		Requests: map[string]Amounts{"app": {"cpu": 100}}, Scheduled: true, Ready: true,
	}
	change(&p)
	return p
}

func updater(seconds float64, sub string, n, code int) Write {
	w := Write{
		At: at(seconds), User: "vpa-updater", Process: "one", Verb: "create", Resource: "pods", Subresource: sub, Namespace: "shop",
		Name: fmt.Sprintf("web-%d", n), UID: fmt.Sprintf("uid-%d", n), Code: code, Body: fmt.Sprintf("%s of uid-%d", sub, n),
	}
	if sub == "resize" {
		w.Verb, w.Requests = "patch", map[string]Amounts{"app": {"cpu": 350}}
	}
	return w
}

func evict(seconds float64, n int) Write { return updater(seconds, "eviction", n, 201) }
func deletion(seconds float64, n int) Write {
	w := updater(seconds, "", n, 200)
	w.Verb = "delete"
	return w
}
func resize(seconds float64, n int) Write { return updater(seconds, "resize", n, 200) }

func status(seconds float64, process string) Write {
	return Write{
		At: at(seconds), User: "vpa-recommender", Process: process, Verb: "patch", Resource: "verticalpodautoscalers",
		Subresource: "status", Namespace: "shop", Name: "web", Code: 200, Body: fmt.Sprint(seconds),
	}
}

func lease(seconds float64, process, holder string) Write {
	return Write{
		At: at(seconds), User: "vpa-recommender", Process: process, Verb: "update", Resource: "leases", Namespace: "kube-system",
		Name: "vpa-recommender-lease", Code: 200, Lease: Lease{Holder: holder, For: 15 * time.Second},
	}
}

func creation(seconds float64, code int, shaped string) Write {
	return Write{
		At: at(seconds), User: "system:kube-controller-manager", Verb: "create", Resource: "pods", Namespace: "shop", Code: code, Shaped: shaped,
	}
}

// terminating is the creation of a pod in a namespace that is being deleted.
func terminating(seconds float64) Write {
	w := creation(seconds, 403, "[cpu]")
	w.Message = `pods "a" is forbidden: unable to create new content in namespace shop because it is being terminated`
	return w
}

func gone(p *Pod)    { p.Gone = true }
func killed(p *Pod)  { p.Ready, p.OOM = false, true }
func unready(p *Pod) { p.Ready = false }
func placeholder(p *Pod) {
	p.Controller, p.Labels = Ref{}, map[string]string{"podfit.dev/placeholder": "true"}
}
func deleting(p *Pod) { p.Deleting = true }
func fits(p *Pod)     { p.Requests = map[string]Amounts{"app": {"cpu": 350}} }
func pending(p *Pod)  { p.Scheduled, p.Ready = false, false }

func budget(healthy int, selector string) Budget {
	s, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	return Budget{At: at(0), Namespace: "shop", Name: "web", Selector: s, Healthy: healthy}
}

func TestJudge_eachRule_reportsOnlyViolations(t *testing.T) {
	type change func(*Log)
	write := func(ws ...Write) change { return func(l *Log) { l.Writes = append(l.Writes, ws...) } }
	pods := func(ps ...Pod) change { return func(l *Log) { l.Pods = append(l.Pods, ps...) } }
	advice := func(do func(*Autoscaler)) change { return func(l *Log) { do(&l.Autoscalers[0]) } }
	for name, c := range map[string]struct {
		replicas int
		changes  []change
		want     string // "rule: part of the text", or "" for no violation
	}{
		"an eviction that is recommended":                 {3, []change{write(evict(20, 0))}, ""},
		"a resize that is recommended":                    {3, []change{write(resize(20, 0))}, ""},
		"an eviction without an autoscaler":               {3, []change{write(evict(20, 0)), func(l *Log) { l.Autoscalers = nil }}, "advised: no VPA targets"},
		"an eviction for another's autoscaler":            {3, []change{write(evict(20, 0)), advice(func(a *Autoscaler) { a.Target.Name = "db" })}, "advised: no VPA targets"},
		"an eviction without a recommendation":            {3, []change{write(evict(20, 0)), advice(func(a *Autoscaler) { a.Ranges = nil })}, "advised: the VPA has no recommendation"},
		"an eviction before the recommendation":           {3, []change{write(evict(20, 0)), advice(func(a *Autoscaler) { a.At = at(21) })}, "advised: no VPA targets"},
		"a recommendation of somebody else's":             {3, []change{write(evict(20, 0)), advice(func(a *Autoscaler) { a.Writer = "mallory" })}, "advised: the recommendation was written by \"mallory\", not by a recommender"},
		"an eviction of a pod that fits":                  {3, []change{write(evict(20, 0)), pods(pod(10, 0, fits))}, "advised: the requests of the pod are within the recommended range"},
		"an attempt on a pod that fits":                   {3, []change{write(updater(20, "eviction", 0, 429)), pods(pod(10, 0, fits))}, "advised: the requests of the pod are within the recommended range"},
		"an eviction of a pod that has just got its size": {3, []change{write(evict(20, 0)), pods(pod(18, 0, fits))}, ""},
		"an eviction of a pod that was replaced":          {3, []change{write(updater(20, "eviction", 0, 409)), pods(pod(10, 0, fits))}, ""},
		"an outdated recommendation": {3, []change{write(evict(20, 0)), func(l *Log) {
			now := l.Autoscalers[0]
			now.At, now.Ranges = at(10), []Range{{Container: "app", Lower: Amounts{"cpu": 50}, Target: Amounts{"cpu": 100}, Upper: Amounts{"cpu": 200}}}
			l.Autoscalers = append(l.Autoscalers, now)
		}}, "advised: the requests of the pod are within the recommended range"},
		"a policy that the pod is below": {3, []change{write(evict(20, 0)), pods(pod(10, 0, fits)), advice(func(a *Autoscaler) {
			a.Ranges[0].AllowedLeast = Amounts{"cpu": 400}
		})}, ""},
		"a pod within range out of memory": {3, []change{write(evict(20, 0)), pods(pod(10, 0, func(p *Pod) { p.Requests = map[string]Amounts{"app": {"cpu": 320}}; p.OOM = true }))}, ""},
		"a resize to something else": {3, []change{write(func() Write {
			w := resize(20, 0)
			w.Requests = map[string]Amounts{"app": {"cpu": 5000}}
			return w
		}())}, "advised: the resize requests map[app:map[cpu:5000]]"},
		"the end of a startup boost": {3, []change{write(resize(20, 0)), pods(pod(10, 0, func(p *Pod) { fits(p); p.Boosted = true }))}, ""},

		"an eviction by an old recommendation": {3, []change{write(evict(20, 0)), advice(func(a *Autoscaler) { a.Recommended = at(-1200) })}, "fresh: the recommendation of VPA web is 20m20s old, more than 20m0s"},
		"a resize by an old recommendation":    {3, []change{write(resize(20, 0)), advice(func(a *Autoscaler) { a.Recommended = at(-1200) })}, "fresh: the recommendation of VPA web is"},
		"a recommendation that was confirmed": {3, []change{write(evict(20, 0)), func(l *Log) {
			l.Autoscalers[0].Recommended = at(-1200)
			now := l.Autoscalers[0]
			now.At, now.Recommended = at(19), at(19)
			l.Autoscalers = append(l.Autoscalers, now)
		}}, ""},
		"a placeholder pod by an old recommendation": {2, []change{write(deletion(20, 7)), pods(pod(5, 7, placeholder)), advice(func(a *Autoscaler) { a.Recommended = at(-1200) })}, ""},

		"as many evictions as may be missing":     {4, []change{write(evict(20, 0), evict(20.1, 1))}, ""},
		"one eviction too many":                   {4, []change{write(evict(20, 0), evict(20.1, 1), evict(20.2, 2))}, "in-budget: 2 of 4 pods are ready before the eviction, and 2 may be unavailable"},
		"an eviction while others are down":       {4, []change{pods(pod(5, 1, unready), pod(5, 2, unready)), write(evict(20, 0))}, "in-budget: 2 of 4 pods are ready"},
		"an eviction just after others went down": {4, []change{pods(pod(19, 1, unready), pod(19, 2, unready)), write(evict(20, 0))}, ""},
		"an eviction of one that is down":         {4, []change{pods(pod(5, 0, unready), pod(5, 1, unready), pod(5, 2, unready)), write(evict(20, 0))}, ""},
		"replacements that serve":                 {2, []change{write(evict(20, 0)), pods(pod(21, 0, gone), pod(30, 2, func(*Pod) {})), write(evict(40, 1))}, ""},
		"the second before the replacement":       {2, []change{write(evict(20, 0)), pods(pod(21, 0, gone), pod(22, 2, unready)), write(evict(40, 1))}, "in-budget: 1 of 2 pods are ready before the eviction, and 1 may be unavailable"},
		"the only replica":                        {1, []change{write(evict(20, 0))}, "in-budget: the controller has 1 live pods, and the minimum for an eviction is 2"},
		"the only replica, as the user allows":    {1, []change{write(evict(20, 0)), advice(func(a *Autoscaler) { a.MinReplicas = 1 })}, ""},
		"two that serve, at once":                 {2, []change{write(evict(20, 0), evict(20.1, 1))}, "in-budget: 1 of 2 pods are ready before the eviction, and 1 may be unavailable"},
		"two that are down, at once":              {2, []change{pods(pod(5, 0, killed), pod(5, 1, unready)), write(evict(20, 0), evict(20.1, 1))}, ""},
		"one that is down, after another":         {2, []change{pods(pod(5, 0, killed), pod(5, 1, unready)), write(evict(20, 0), evict(27, 1))}, "in-budget: the controller has 1 live pods, and the minimum for an eviction is 2"},
		"the only replica, OOM-killed":            {1, []change{write(evict(20, 0)), pods(pod(5, 0, killed))}, ""},
		"a deletion of an OOM-killed pod":         {2, []change{write(deletion(20, 0)), pods(pod(5, 0, killed))}, ""},
		"a deletion of a ready pod":               {2, []change{write(deletion(20, 0))}, "in-budget: a pod is deleted that is ready or was not OOM-killed"},
		"a deletion of a placeholder pod":         {2, []change{write(deletion(20, 7)), pods(pod(5, 7, placeholder))}, ""},
		"a deletion of an unready pod":            {2, []change{write(deletion(20, 0)), pods(pod(5, 0, unready))}, "in-budget: a pod is deleted that is ready or was not OOM-killed"},
		"a deletion of a pod that fits":           {2, []change{write(deletion(20, 0)), pods(pod(5, 0, func(p *Pod) { killed(p); fits(p) }))}, "advised: the requests of the pod are within the recommended range"},
		"a pod without a node":                    {1, []change{pods(pod(5, 0, pending)), write(evict(20, 0))}, ""},
		"a budget that is kept":                   {4, []change{func(l *Log) { l.Budgets = []Budget{budget(3, "app=web")} }, write(evict(20, 0))}, ""},
		"a budget that is broken":                 {4, []change{func(l *Log) { l.Budgets = []Budget{budget(3, "app=web")} }, write(evict(20, 0), evict(20.1, 1))}, "in-budget: 3 pods of PodDisruptionBudget shop/web are healthy before the eviction, 3 must be"},
		"a budget of other pods":                  {4, []change{func(l *Log) { l.Budgets = []Budget{budget(1, "role=primary")} }, write(evict(20, 1))}, ""},
		"a budget of this pod":                    {4, []change{func(l *Log) { l.Budgets = []Budget{budget(1, "role=primary")} }, write(evict(20, 0))}, "in-budget: 1 pods of PodDisruptionBudget shop/web are healthy before the eviction, 1 must be"},
		"a pod on its way out counts as down":     {4, []change{pods(pod(5, 1, deleting), pod(5, 2, deleting)), write(evict(20, 0))}, "in-budget: 2 of 4"},

		"a leader":                           {2, []change{write(lease(0, "one", "a"), status(5, "one"), lease(10, "one", "a"), status(24, "one"))}, ""},
		"a former leader":                    {2, []change{write(lease(0, "one", "a"), lease(16, "two", "b"), status(17, "one"))}, "sole-leader: acts while two holds"},
		"a leader whose lease expired":       {2, []change{write(lease(0, "one", "a"), status(22, "one"))}, "sole-leader: acts 22s after its last renewal"},
		"a leader that released its lease":   {2, []change{write(lease(0, "one", "a"), lease(3, "one", ""), status(4, "one"))}, "sole-leader: acts while no process holds"},
		"a leader without a lease yet":       {2, []change{write(status(0, "one"), lease(1, "one", "a"))}, "sole-leader: acts before it acquires"},
		"a process that takes over":          {2, []change{write(lease(0, "one", "a"), status(1, "one"), lease(16, "two", "b"), status(17, "two"), lease(40, "one", "c"), status(41, "one"))}, ""},
		"one after another without election": {2, []change{write(status(0, "one"), status(1, "one"), status(2, "two"), status(3, "two"))}, ""},
		"two at a time without election":     {2, []change{write(status(0, "one"), status(1, "two"), status(2, "one"))}, "sole-leader: two processes without leader election write it alternately"},

		"a pod that is refused":           {2, []change{write(creation(5, 422, "[cpu]"))}, "admitted: the API server refuses a pod that the webhook has changed"},
		"a quota that refuses":            {2, []change{write(creation(5, 403, "[cpu]"), creation(6, 403, "[cpu]"))}, "admitted: the API server refuses a pod that the webhook has changed"},
		"a pod that is refused as it was": {2, []change{write(creation(5, 422, ""))}, ""},
		"a pod that is accepted":          {2, []change{write(creation(5, 201, "[cpu]"))}, ""},
		"a namespace that is deleted":     {2, []change{write(terminating(5))}, ""},
		"a pod whose name is taken":       {2, []change{write(creation(5, 409, "[cpu]"))}, ""},
		"an API server that fails":        {2, []change{write(creation(5, 500, "[cpu]"))}, ""},

		"one resize too many":  {2, []change{write(resize(10, 0), resize(20, 0), resize(30, 0))}, ""},
		"a resize without end": {2, []change{write(resize(10, 0), resize(20, 0), resize(30, 0), resize(40, 0))}, "settles: the same resize is applied repeatedly: 4 times in 30s"},
		"evictions without end": {2, []change{func(l *Log) {
			for i := range 6 {
				from := float64(30 * i)
				l.Pods = append(l.Pods, pod(from+6, 10+i, func(p *Pod) { p.Created = at(from + 5) }), pod(from+31, 10+i, gone))
				l.Writes = append(l.Writes, evict(from+30, 10+i))
			}
		}}, "effective: pods are replaced by pods with the same requests"},

		"two evictions without effect":   {3, []change{futile(2, evict, nil)}, ""},
		"three evictions without effect": {3, []change{futile(3, evict, nil)}, "effective: pods are replaced by pods with the same requests: 3 times in 1m0s"},
		"three evictions while a test keeps the webhook from sizing pods": {3, []change{futile(3, evict, nil), func(l *Log) {
			for i := range l.Pods {
				l.Pods[i].Unreviewed = true
			}
		}}, ""},
		"three OOM-killed pods in vain":  {3, []change{futile(3, evict, killed)}, "effective: pods are replaced by pods with the same requests"},
		"three deletions without effect": {3, []change{futile(3, deletion, killed)}, "effective: pods are replaced by pods with the same requests"},
		"three surges without effect":    {3, []change{futile(3, surge, nil)}, "effective: pods are replaced by pods with the same requests"},
		"three steps of one surge":       {3, []change{write(surge(20, 0), surge(25, 0), surge(30, 0)), pods(pod(21, 10, func(p *Pod) { p.Created = at(21) }))}, ""},
		"evictions with effect": {3, []change{func(l *Log) {
			for i := range 3 {
				from := float64(30 * i)
				l.Writes = append(l.Writes, evict(from+20, i))
				l.Pods = append(l.Pods, pod(from+21, i, gone), pod(from+22, 10+i, func(p *Pod) { fits(p); p.Created = at(from + 21) }))
			}
		}}, ""},

		"a few refusals":                  {2, []change{write(refusals(4, 10)...)}, ""},
		"refusals ever slower":            {2, []change{write(refusals(20, 60)...)}, ""},
		"refusals without end":            {2, []change{write(refusals(20, 5)...)}, "backs-off: the same request is refused repeatedly: 7 times in 30s"},
		"refusals and successes in turns": {2, []change{write(refusals(6, 5)...), write(resize(28, 0)), write(later(30, refusals(6, 5))...)}, ""},
		"refusals of others": {2, []change{func(l *Log) {
			for _, w := range refusals(20, 5) {
				w.User = "system:kube-controller-manager"
				l.Writes = append(l.Writes, w)
			}
		}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := shop(c.replicas)
			for _, change := range c.changes {
				change(&l)
			}
			slices.Reverse(l.Writes) // the order of the log does not matter
			limits := DefaultLimits()
			limits.Fresh = 20 * time.Minute
			got := Judge(l, limits)
			if c.want == "" {
				for _, v := range got {
					t.Errorf("unexpected: %v", v)
				}
				return
			}
			rule, text, _ := strings.Cut(c.want, ": ")
			if len(got) != 1 || string(got[0].Rule) != rule || !strings.Contains(got[0].Text, text) || len(got[0].Evidence) == 0 {
				t.Errorf("violations are %v, want one of %s", got, c.want)
			}
		})
	}
}

// futile are so many writes that replace a pod by one with the same requests, thirty seconds apart. Just before the write the pod is changed.
func futile(n int, write func(float64, int) Write, change func(*Pod)) func(*Log) {
	return func(l *Log) {
		for i := range n {
			from := float64(30 * i)
			if change != nil {
				l.Pods = append(l.Pods, pod(from+10, i, change))
			}
			l.Writes = append(l.Writes, write(from+20, i))
			l.Pods = append(l.Pods, pod(from+21, i, gone), pod(from+22, 10+i, func(p *Pod) { p.Created = at(from + 21) }))
		}
	}
}

// surge is a write to the Deployment of the shop with the record of a surge.
func surge(seconds float64, n int) Write {
	w := updater(seconds, "", n, 200)
	w.Verb, w.Resource, w.Name, w.UID = "patch", "deployments", "web", ""
	w.Body = fmt.Sprintf(`{"metadata":{"annotations":{"podfit.dev/surge":"{\"replicas\":3,\"pod\":\"web-%[1]d\",\"uid\":\"uid-%[1]d\"}"}}}`, n)
	return w
}

// refusals are so many refused resizes of one pod, so many seconds apart.
func refusals(n int, every float64) (out []Write) {
	for i := range n {
		out = append(out, updater(float64(i)*every, "resize", 0, 400))
	}
	return out
}

func later(seconds float64, ws []Write) []Write {
	for i := range ws {
		ws[i].At = ws[i].At.Add(time.Duration(seconds * float64(time.Second)))
	}
	return ws
}

func TestJudge_sameViolationAgain_isCounted(t *testing.T) {
	l := shop(2)
	l.Writes = []Write{creation(5, 422, "x"), creation(6, 422, "x"), creation(7, 422, "x")}
	got := Judge(l, DefaultLimits())
	if len(got) != 1 || got[0].Times != 3 || !got[0].At.Equal(at(5)) || !strings.Contains(got[0].String(), "(3 times)") {
		t.Errorf("violations are %v", got)
	}
}

// What was found is found again when the log grows, and a later violation of the same rule by the same object is another one.
func TestEach_logGrows_violationsStay(t *testing.T) {
	for name, writes := range map[string][]Write{
		"refusals": slices.Concat(refusals(7, 5), later(600, refusals(7, 5))),
		"resizes":  {resize(0, 0), resize(1, 0), resize(2, 0), resize(3, 0), resize(900, 0), resize(901, 0), resize(902, 0), resize(903, 0)},
		"pods":     {creation(5, 422, "x"), creation(600, 422, "x")},
	} {
		t.Run(name, func(t *testing.T) {
			l := shop(2)
			l.Writes = writes[:len(writes)/2]
			before := Each(l, DefaultLimits())
			l.Writes = writes
			after := Each(l, DefaultLimits())
			if len(before) != 1 || len(after) != 2 || !before[0].At.Equal(after[0].At) || before[0].Object != after[0].Object {
				t.Fatalf("violations are %v, and then %v", before, after)
			}
			if merged := Merge(after); len(merged) != 1 || merged[0].Times != 2 {
				t.Errorf("merged violations are %v", merged)
			}
			if v := after[1]; v.From.After(v.At) || v.From.Before(before[0].At) {
				t.Errorf("the second violation is from %v to %v", v.From, v.At)
			}
		})
	}
}

func TestForRole_podHasASizeByItsRole_rangeIsCloseToIt(t *testing.T) {
	a := &Autoscaler{RoleLabel: "role", Ranges: []Range{{
		Container: "app", Lower: Amounts{"cpu": 10, "memory": 1}, Target: Amounts{"cpu": 1000, "memory": 5}, Upper: Amounts{"cpu": 9000, "memory": 9},
		OfRoles: map[string]Amounts{"follower": {"cpu": 100}},
	}}}
	for role, want := range map[string][3]int64{"follower": {85, 100, 120}, "leader": {850, 1000, 1200}, "": {10, 1000, 9000}} {
		r := a.forRole(&Pod{Labels: map[string]string{"role": role}}).Ranges[0]
		if got := [3]int64{r.Lower["cpu"], r.Target["cpu"], r.Upper["cpu"]}; got != want || r.Upper["memory"] != 9 {
			t.Errorf("%q: %v, want %v", role, got, want)
		}
	}
	a.RoleLabel, a.Ranges[0].OfRoles = NodeSize, map[string]Amounts{"4cpu-16Gi": {"cpu": 100}}
	for size, want := range map[string][3]int64{"4cpu-16Gi": {1, 100, 900}, "64cpu-256Gi": {10, 1000, 9000}} {
		r := a.forRole(&Pod{Labels: map[string]string{NodeSize: size}}).Ranges[0]
		if got := [3]int64{r.Lower["cpu"], r.Target["cpu"], r.Upper["cpu"]}; got != want {
			t.Errorf("%q: %v, want %v", size, got, want)
		}
	}
	if a.Ranges[0].Target["cpu"] != 1000 {
		t.Error("the recommendation of the VPA has changed")
	}
}
