// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package soak judges podfit during hours of churn and faults, by what an API server got from it: the invariants of the end-to-end tests, and that
// nothing grows. It does not make the churn and the faults.
package soak

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	vpa "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
	"podfit.dev/podfit/test/load/apiserver"
)

// Rules beside those of package invariant.
const (
	Served    invariant.Rule = "served"     // only objects of podfit's VPAs are written, and only resources that podfit owns
	Mode      invariant.Rule = "mode"       // the update mode of a VPA allows the action
	WriteRate invariant.Rule = "write-rate" // the number of writes in a minute is bounded
	NoPanic   invariant.Rule = "no-panic"   // no log has a panic
	Recovers  invariant.Rule = "recovers"   // the process is healthy in time after a fault, and never ends by itself
	Reviews   invariant.Rule = "reviews"    // the webhook answers when there is no fault
	Suits     invariant.Rule = "suits"      // recommendations are in proportion to the usage
	Flat      invariant.Rule = "flat"       // nothing grows from day to day
)

// Config is what a checker compares with.
type Config struct {
	Foreign         string        // the recommender of VPAs that podfit does not serve
	UpdaterInterval time.Duration // decisions are based on states that are at most a pass and a few seconds old
	WritesPerMinute int
}

// kept is how long observations are kept: longer than any rule looks back.
const kept = 35 * time.Minute

// A Checker collects what an API server gets, and judges it. It is safe for several goroutines.
type Checker struct {
	config Config

	queued  sync.Mutex // of changes alone: they arrive while the API server holds its mutex
	changes []change

	judging sync.Mutex // held before mu

	mu          sync.Mutex
	spaces      map[string]*space
	autoscalers map[string]autoscaler // by namespace/name
	minutes     map[int64]int         // writes by minute
	disturbed   []window
	passes      []time.Time // when the recommender had completed a pass
	found       map[string]*invariant.Violation
	actions     map[string]int
}

// A space is what happened in a namespace.
type space struct {
	journal *bed.Journal
	acted   bool // a pod was evicted, deleted or resized since the last judgement
}

type autoscaler struct {
	mode    vpa.UpdateMode
	foreign bool
}

type change struct {
	at        time.Time
	o, before *apiserver.Object
}

// A window is the time of a fault, until podfit has recovered.
type window struct{ from, to time.Time }

// NewChecker returns a checker without observations.
func NewChecker(c Config) *Checker {
	return &Checker{
		config: c, spaces: map[string]*space{}, autoscalers: map[string]autoscaler{}, minutes: map[int64]int{}, found: map[string]*invariant.Violation{},
		actions: map[string]int{},
	}
}

// Changed records a change of an object. It is for apiserver.Options.
func (c *Checker) Changed(o, before *apiserver.Object) {
	k := cmp.Or(o, before).Kind
	switch k.Resource {
	case "pods", "replicasets", "statefulsets", "jobs", "poddisruptionbudgets", vpa.ResourceAutoscalers:
	default:
		return
	}
	c.queued.Lock()
	defer c.queued.Unlock()
	c.changes = append(c.changes, change{time.Now(), o, before})
}

// catchUp reads the changes. The caller holds the mutex.
func (c *Checker) catchUp() {
	c.queued.Lock()
	all := c.changes
	c.changes = nil
	c.queued.Unlock()
	for _, x := range all {
		o := cmp.Or(x.o, x.before)
		if o.Kind.New != nil {
			c.space(o.Namespace).journal.Saw(o.Decode(), x.at, x.o == nil)
			continue
		}
		switch {
		case x.o == nil:
			c.audit(entry{at: x.at, verb: "delete", resource: vpa.ResourceAutoscalers, namespace: o.Namespace, name: o.Name, code: 200})
		case x.before == nil:
			c.audit(entry{at: x.at, verb: "create", resource: vpa.ResourceAutoscalers, namespace: o.Namespace, name: o.Name, code: 201, answer: o.JSON()})
			c.learn(o)
		}
	}
}

// learn remembers how a VPA is served.
func (c *Checker) learn(o *apiserver.Object) {
	var v vpa.VerticalPodAutoscaler
	if err := json.Unmarshal(o.JSON(), &v); err != nil {
		return
	}
	out := autoscaler{foreign: len(v.Spec.Recommenders) > 0 && v.Spec.Recommenders[0].Name == c.config.Foreign}
	if v.Spec.UpdatePolicy != nil && v.Spec.UpdatePolicy.UpdateMode != nil {
		out.mode = *v.Spec.UpdatePolicy.UpdateMode
	}
	c.autoscalers[o.Namespace+"/"+o.Name] = out
}

func (c *Checker) space(namespace string) *space {
	s := c.spaces[namespace]
	if s == nil {
		s = &space{journal: bed.NewJournal()}
		c.spaces[namespace] = s
	}
	return s
}

// An entry is a line of an audit log.
type entry struct {
	at                                               time.Time
	user, process                                    string
	verb, group, resource, sub, namespace, name, uri string
	code                                             int
	message                                          string
	body, answer                                     []byte // in JSON
}

func (c *Checker) audit(e entry) {
	line := map[string]any{
		"verb": e.verb, "requestReceivedTimestamp": e.at, "requestURI": e.uri,
		"user":           map[string]any{"username": e.user, "extra": map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=" + e.process}}},
		"objectRef":      map[string]string{"apiGroup": e.group, "resource": e.resource, "subresource": e.sub, "namespace": e.namespace, "name": e.name},
		"responseStatus": map[string]any{"code": e.code, "message": e.message},
	}
	if json.Valid(e.body) {
		line["requestObject"] = json.RawMessage(e.body)
	}
	if json.Valid(e.answer) {
		line["responseObject"] = json.RawMessage(e.answer)
	}
	b, err := json.Marshal(line)
	if err == nil {
		err = c.space(e.namespace).journal.Audit(b)
	}
	if err != nil {
		c.add(invariant.Violation{Rule: "checker", At: e.at, Object: e.resource + " " + e.namespace + "/" + e.name, Text: err.Error()})
	}
}

// account is the service account of podfit run.
const account = "system:serviceaccount:" + bed.Namespace + ":podfit"

// owned are the resources that podfit may write.
var owned = []string{
	"verticalpodautoscalers.autoscaling.k8s.io/status", "verticalpodautoscalercheckpoints.autoscaling.k8s.io", "usagehistories.podfit.dev", "updatestates.podfit.dev",
	"capacityplans.podfit.dev", "capacityplans.podfit.dev/status", "pods/eviction", "pods/resize", "events", "events.events.k8s.io", "leases.coordination.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io", "secrets", "pods",
}

// Wrote records a write of podfit. It is for apiserver.Options.
func (c *Checker) Wrote(x apiserver.Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catchUp()
	if x.Kind.Resource == "events" {
		return
	}
	e := entry{
		at: x.At, user: account, process: x.Token, verb: x.Verb, group: x.Kind.Group, resource: x.Kind.Resource, sub: x.Sub, namespace: x.Namespace, name: x.Name, uri: x.URI,
		code: x.Code, message: x.Message, body: x.Body,
	}
	if x.Stored != nil && x.Kind.Resource == vpa.ResourceAutoscalers {
		e.answer = x.Stored.JSON()
	}
	c.audit(e)
	if x.Kind.Resource == "pods" {
		c.space(x.Namespace).acted = true
		if x.Code < 300 {
			c.actions[cmp.Or(x.Sub, x.Verb)]++
		}
	}
	if !slices.Contains(owned, x.Resource) {
		c.violate(Served, x, "podfit does not own this resource")
	}
	if x.Stored != nil && x.Code < 300 {
		c.judgeTarget(x)
	}
}

// judgeTarget judges by the VPA that a write belongs to: that of the written object, or of the pod.
func (c *Checker) judgeTarget(x apiserver.Exchange) {
	name := x.Name
	switch x.Kind.Resource {
	case "pods":
		name = x.Stored.Labels["app"]
	case vpa.ResourceAutoscalers:
	default:
		return
	}
	a, known := c.autoscalers[x.Namespace+"/"+name]
	switch {
	case !known:
		return
	case a.foreign:
		c.violate(Served, x, "the VPA names the recommender "+c.config.Foreign)
	case x.Sub == "eviction" && (a.mode == vpa.UpdateModeOff || a.mode == vpa.UpdateModeInitial),
		x.Sub == "resize" && (a.mode == vpa.UpdateModeOff || a.mode == vpa.UpdateModeInitial || a.mode == vpa.UpdateModeRecreate):
		c.violate(Mode, x, fmt.Sprintf("the update mode of the VPA is %s", a.mode))
	}
}

func (c *Checker) violate(rule invariant.Rule, x apiserver.Exchange, text string) {
	c.add(invariant.Violation{
		Rule: rule, At: x.At, Namespace: x.Namespace, Object: strings.TrimSuffix(x.Resource+" "+x.Namespace+"/"+x.Name, "/"), Text: text,
		Evidence: []string{fmt.Sprintf("%s %s: %d %s", x.Verb, x.URI, x.Code, x.Body[:min(len(x.Body), 2000)])},
	})
}

// Violate adds a violation that the caller has found.
func (c *Checker) Violate(rule invariant.Rule, at time.Time, object, text string, evidence ...string) {
	c.Add(invariant.Violation{Rule: rule, At: at, Object: object, Text: text, Evidence: evidence})
}

// Add adds a violation unless it is known.
func (c *Checker) Add(v invariant.Violation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(v)
}

// add is Add for a caller that holds the mutex.
func (c *Checker) add(v invariant.Violation) {
	id := fmt.Sprint(v.Rule, v.Object, v.At.UnixNano())
	if c.found[id] == nil {
		v.Times = 1
		c.found[id] = &v
	}
}

// Disturb records that a fault begins. The function that it returns is called when podfit has recovered from it.
func (c *Checker) Disturb(at time.Time) (calm func(time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disturbed = append(c.disturbed, window{from: at})
	i := len(c.disturbed) - 1
	return func(at time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.disturbed[i].to = at
	}
}

// isDisturbed reports whether a fault is felt at some time of a span.
func (c *Checker) isDisturbed(from, to time.Time) bool {
	return slices.ContainsFunc(c.disturbed, func(w window) bool { return !w.from.After(to) && (w.to.IsZero() || !w.to.Before(from)) })
}

// Disturbed reports whether a fault is felt at a time.
func (c *Checker) Disturbed(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isDisturbed(at, at)
}

// Passed records that the recommender completed a pass.
func (c *Checker) Passed(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.passes); n == 0 || c.passes[n-1].Before(at) {
		c.passes = append(c.passes, at)
	}
}

// Writes records a number of writes, with those that a fault refused.
func (c *Checker) Writes(at time.Time, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.minutes[at.Unix()/60] += n
}

// confirmed is how old a recommendation may be that was neither written nor confirmed by a pass of the recommender.
const confirmed = 5 * time.Minute

// Judge judges what was recorded since the last judgement. Writes go on meanwhile.
func (c *Checker) Judge(now time.Time) {
	c.judging.Lock()
	defer c.judging.Unlock()
	for _, log := range c.acted() {
		rough, calm := c.limits()
		certain := map[string]bool{}
		for _, v := range invariant.Each(log, rough) {
			certain[fmt.Sprint(v.Rule, v.Object, v.At)] = true
		}
		for _, v := range invariant.Each(log, calm) {
			if c.counts(v, calm.Stale, certain[fmt.Sprint(v.Rule, v.Object, v.At)]) {
				c.Add(v)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spaces {
		s.journal.Forget(now.Add(-kept))
	}
	for minute, n := range c.minutes {
		if n > c.config.WritesPerMinute {
			c.add(invariant.Violation{
				Rule: WriteRate, At: time.Unix(minute*60, 0), Object: "all writes", Text: fmt.Sprintf("%d writes in a minute, more than %d", n, c.config.WritesPerMinute),
			})
		}
	}
}

// limits returns the limits during a fault, and without one.
func (c *Checker) limits() (rough, calm invariant.Limits) {
	calm = invariant.DefaultLimits()
	calm.Stale = c.config.UpdaterInterval + 5*time.Second
	calm.Lag = 2 * time.Second
	calm.Fresh = confirmed
	rough = calm
	rough.Stale = 2*time.Minute + c.config.UpdaterInterval // podfit trusts a watch that is interrupted for so long
	return rough, calm
}

// acted returns the logs of the namespaces whose pods were changed since the last judgement.
func (c *Checker) acted() (out []invariant.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catchUp()
	for _, name := range slices.Sorted(maps.Keys(c.spaces)) {
		if s := c.spaces[name]; s.acted {
			out = append(out, s.journal.Log())
			s.acted = false
		}
	}
	return out
}

// counts reports whether a violation of the limits without a fault counts: there was none, or it violates those during a fault, too.
func (c *Checker) counts(v invariant.Violation, stale time.Duration, certain bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.Rule == invariant.Fresh && c.isConfirmed(v.At) {
		return false
	}
	return certain || !c.isDisturbed(v.From.Add(-stale), v.At)
}

func (c *Checker) isConfirmed(at time.Time) bool {
	return slices.ContainsFunc(c.passes, func(p time.Time) bool { return !p.After(at) && at.Sub(p) < confirmed })
}

// Violations returns the violations so far in order, one for each rule and object, with a count.
func (c *Checker) Violations() []invariant.Violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []invariant.Violation
	for _, id := range slices.Sorted(maps.Keys(c.found)) {
		all = append(all, *c.found[id])
	}
	slices.SortStableFunc(all, func(a, b invariant.Violation) int { return a.At.Compare(b.At) })
	return invariant.Merge(all)
}

// Count returns how many evictions, resizes and deletions of pods were carried out.
func (c *Checker) Count() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.actions)
}

// BusiestMinute returns the most writes in a minute.
func (c *Checker) BusiestMinute() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Max(append(slices.Collect(maps.Values(c.minutes)), 0))
}
