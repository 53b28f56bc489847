// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package headroom

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/attempt"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/room"
)

const gib = 1 << 30

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	delays = attempt.Delays{BackoffBase: time.Minute, BackoffMax: time.Hour, RefusalBase: time.Minute, RefusalMax: time.Hour}
)

// eviction returns the eviction of a pod on node a, which requests 1 CPU and should get 2.
func eviction(namespace, name string) *decision.Decision {
	w := cluster.Workload{Group: "apps", Kind: "StatefulSet", Namespace: namespace, Name: name}
	return &decision.Decision{
		Pod: &cluster.Pod{
			Key: cluster.Key{Namespace: namespace, Name: name + "-0"}, UID: namespace + name, Controller: w, Top: w, Node: "a", Phase: cluster.Running,
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, gib)}},
		},
		Autoscaler: &cluster.Autoscaler{Mode: cluster.Recreate}, Do: decision.Evict,
		Wanted: decision.Reason{Code: decision.BelowRange}, With: []policy.Fitted{{Container: "app", Requests: cluster.Amounts(2000, gib)}},
	}
}

// begun returns a search on node a, which is full, and node b with some CPU, for decisions.
func begun(now time.Time, provider Provider, record *Record, free int64, requests []cluster.CapacityRequest, ds ...*decision.Decision) (*Search, map[cluster.Key]*decision.Decision) {
	nodes := []cluster.Node{
		{Name: "a", Ready: true, Allocatable: cluster.Amounts(1000, 4*gib)}, {Name: "b", Ready: true, Allocatable: cluster.Amounts(free, 4*gib)},
	}
	var pods []*cluster.Pod
	for _, d := range ds {
		pods = append(pods, d.Pod)
	}
	s := New(now, Rules{Provider: provider, Delays: delays}, record, requests, pods)
	decisions := map[cluster.Key]*decision.Decision{}
	for _, d := range ds {
		if s.Of(d.Pod) != nil {
			decisions[cluster.PlaceholderOf(d.Pod)] = d
		}
	}
	s.Begin(placement.RoomsOf(nodes, pods, placement.SizesOf(nodes, nil, nil, nil)), decisions)
	return s, decisions
}

// pass leaves evictions that lack room, because node b has little, asks for capacity for them, and carries out all steps. It returns what is in the cluster then.
func pass(t *testing.T, now time.Time, provider Provider, record *Record, requests []cluster.CapacityRequest, ds ...*decision.Decision) []cluster.CapacityRequest {
	t.Helper()
	s, decisions := begun(now, provider, record, 500, requests, ds...)
	var waiting []*decision.Decision
	for _, d := range ds {
		if r, lacks := s.Lacks(d); lacks {
			d.Do, d.Reason = decision.Leave, r
			waiting = append(waiting, d)
		}
	}
	s.Ask(waiting)
	s.Release(decisions)
	left := map[string]cluster.CapacityRequest{}
	for _, r := range requests {
		left[r.UID] = r
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		if step.Request != nil {
			delete(left, step.Request.UID)
		} else {
			r := cluster.CapacityRequest{Key: cluster.PlaceholderOf(step.Pod), UID: "r" + step.Pod.UID + fmt.Sprint(now.Unix()), Kind: step.Kind, Created: now, Size: step.Size}
			left[r.UID] = r
		}
		s.Done(step)
	}
	var out []cluster.CapacityRequest
	for _, r := range left {
		out = append(out, r)
	}
	return out
}

func TestSearch_roomOnAnotherNode_isGivenOnce(t *testing.T) {
	web, cart := eviction("shop", "web"), eviction("shop", "cart")
	cart.Pod.Node = "b"
	cart.Pod.Containers[0].Requests = cluster.Amounts(100, gib)
	s, _ := begun(noon, PlaceholderPods, NewRecord(), 3000, nil, web, cart)
	if !s.IsOn() {
		t.Fatal("the search is off")
	}
	if r, lacks := s.Lacks(web); lacks {
		t.Errorf("node b has room for web: %s", r)
	}
	if r, lacks := s.Lacks(cart); !lacks || r.Code != decision.AwaitingCapacity {
		t.Errorf("the room of b was given twice: %s", r)
	}
}

// The whole life of a request: asked, provided, evicted, released.
func TestSearch_requestIsProvided_podIsEvicted(t *testing.T) {
	record, web := NewRecord(), eviction("shop", "web")
	requests := pass(t, noon, ProvisioningRequests|PlaceholderPods, record, nil, web)
	if len(requests) != 1 || requests[0].Kind != cluster.ProvisioningRequest || web.Reason.Code != decision.AwaitingCapacity || !web.Reason.Until.Equal(noon.Add(10*time.Minute)) {
		t.Fatalf("requests %+v, %s", requests, web.Reason)
	}
	if got := record.Of(web.Pod.Workload()); got.UID != web.Pod.UID || !got.Requested.Equal(noon) {
		t.Errorf("recorded %+v", got)
	}
	web = eviction("shop", "web")
	requests = pass(t, noon.Add(time.Minute), ProvisioningRequests, record, requests, web)
	if len(requests) != 1 || web.Reason.Code != decision.AwaitingCapacity {
		t.Fatalf("while it is not provided: %+v, %s", requests, web.Reason)
	}
	requests[0].State = cluster.RequestProvided
	web = eviction("shop", "web")
	left := pass(t, noon.Add(2*time.Minute), ProvisioningRequests, record, requests, web)
	if web.Do != decision.Evict || web.Request == nil || len(left) != 1 {
		t.Errorf("provided: %s %s, request %v, %d left", web.Do, web.Reason, web.Request, len(left))
	}
	record.Evicted(web.Pod.Workload())
	web.Reason.Code = decision.AlreadyEvicted
	if left = pass(t, noon.Add(3*time.Minute), ProvisioningRequests, record, requests); len(left) != 0 || record.Of(web.Pod.Workload()) != (State{}) {
		t.Errorf("after the eviction: %+v, %+v", left, record.Of(web.Pod.Workload()))
	}
}

// A request that is not provided in time fails, and the next one follows after a back-off. If no autoscaler has accepted a ProvisioningRequest, the
// next request is a placeholder pod.
func TestSearch_requestIsNotProvided_backsOff(t *testing.T) {
	for kind, want := range map[cluster.RequestKind]string{cluster.ProvisioningRequest: notAccepted, cluster.PlaceholderPod: noNodeInTime} {
		record, web := NewRecord(), eviction("shop", "web")
		old := []cluster.CapacityRequest{{Key: cluster.PlaceholderOf(web.Pod), UID: "r", Kind: kind, Created: noon.Add(-10 * time.Minute), Size: cluster.Amounts(2000, gib)}}
		if left := pass(t, noon, ProvisioningRequests|PlaceholderPods, record, old, web); len(left) != 0 {
			t.Errorf("%v: %+v is left", kind, left)
		}
		got := record.Of(web.Pod.Workload())
		if web.Reason.Code != decision.CapacityNotFound || web.Reason.Text != want || got.Failures != 1 || got.Text != want || !web.Reason.Until.Equal(noon.Add(time.Minute)) {
			t.Errorf("%v: %s, recorded %+v", kind, web.Reason, got)
		}
		for after, code := range map[time.Duration]decision.ReasonCode{30 * time.Second: decision.CapacityNotFound, 2 * time.Minute: decision.AwaitingCapacity} {
			again := eviction("shop", "web")
			requests := pass(t, noon.Add(after), ProvisioningRequests|PlaceholderPods, record, nil, again)
			if again.Reason.Code != code {
				t.Errorf("%v after %v: %s", kind, after, again.Reason)
			}
			if code == decision.AwaitingCapacity && (len(requests) != 1 || (requests[0].Kind == cluster.PlaceholderPod) != (kind == cluster.ProvisioningRequest)) {
				t.Errorf("%v: the next request is %+v", kind, requests)
			}
			record.Released(again.Pod.Workload())
		}
	}
}

func TestSearch_requests_areReleasedWithTheirReason(t *testing.T) {
	for want, change := range map[Release]func(*decision.Decision, *cluster.CapacityRequest, *Provider){
		ReleaseGone: func(d *decision.Decision, _ *cluster.CapacityRequest, _ *Provider) {
			d.Reason.Code = decision.AlreadyEvicted
		},
		ReleaseUnwanted: func(d *decision.Decision, _ *cluster.CapacityRequest, _ *Provider) { d.Wanted = decision.Reason{} },
		ReleaseFailed: func(_ *decision.Decision, r *cluster.CapacityRequest, _ *Provider) {
			r.State, r.Text = cluster.RequestFailed, "no quota"
		},
		ReleaseExpired: func(_ *decision.Decision, r *cluster.CapacityRequest, _ *Provider) { r.Created = noon.Add(-time.Hour) },
		ReleaseOutgrown: func(_ *decision.Decision, r *cluster.CapacityRequest, _ *Provider) {
			r.Size = cluster.Amounts(1500, gib)
		},
		ReleaseOff: func(_ *decision.Decision, _ *cluster.CapacityRequest, p *Provider) { *p = ProvisioningRequests },
		"":         func(*decision.Decision, *cluster.CapacityRequest, *Provider) {},
	} {
		d, provider := eviction("shop", "web"), PlaceholderPods
		d.Do = decision.Leave
		r := cluster.CapacityRequest{Key: cluster.PlaceholderOf(d.Pod), UID: "r", Kind: cluster.PlaceholderPod, Created: noon, Size: cluster.Amounts(2000, gib)}
		change(d, &r, &provider)
		record := NewRecord()
		for round := range 2 {
			s, decisions := begun(noon, provider, record, 500, []cluster.CapacityRequest{r}, d)
			s.Release(decisions)
			var got Release
			for i := range s.Steps {
				got = s.Steps[i].Release
				if _, refused := s.Refused(&s.Steps[i], decision.Refusal{Kind: decision.Denied}); refused {
					t.Errorf("%q: a deletion that is refused is a refused request", want)
				}
			}
			if round == 0 && got != want || round == 1 && got != "" {
				t.Errorf("round %d: released because of %q, want %q, and a back-off after that is refused", round, got, want)
			}
		}
	}
}

func TestSearch_manyPodsWait_requestsAreBounded(t *testing.T) {
	record := NewRecord()
	var ds []*decision.Decision
	for i := range 40 {
		ds = append(ds, eviction(fmt.Sprintf("n%d", i%4), fmt.Sprintf("w%d", i)))
	}
	requests := pass(t, noon, PlaceholderPods, record, nil, ds...)
	perNamespace := map[string]int{}
	for _, r := range requests {
		perNamespace[r.Namespace]++
	}
	if len(requests) != maxRequests || perNamespace["n0"] > maxOfNamespace || record.Turns.Last("n0").IsZero() {
		t.Errorf("%d requests, by namespace %v", len(requests), perNamespace)
	}
}

func TestSearch_answers_areRecorded(t *testing.T) {
	record, web := NewRecord(), eviction("shop", "web")
	s, _ := begun(noon, PlaceholderPods, record, 500, nil, web)
	step := &Step{Pod: web.Pod, Autoscaler: web.Autoscaler}
	if why, refused := s.Refused(step, decision.Refusal{Kind: decision.Denied, Text: strings.Repeat("x", 1000)}); !refused || why.Code != decision.CapacityNotFound || len(why.Text) > attempt.MaxText+len("…") {
		t.Errorf("refused %v: %s", refused, why.Code)
	}
	if _, refused := s.Refused(step, decision.Refusal{Kind: decision.OutcomeIsUnknown}); refused || record.Of(web.Pod.Workload()).Requested.IsZero() {
		t.Error("a request without an answer does not count as created")
	}
	record.Released(web.Pod.Workload())
	if got := record.Of(web.Pod.Workload()); got.Failures != 1 || got.UID != "" {
		t.Errorf("released: %+v, want the failure", got)
	}
	shrinks := eviction("shop", "web")
	shrinks.Pod.Node, shrinks.With[0].Requests = "gone", cluster.Amounts(900, gib)
	if r, lacks := s.Lacks(shrinks); !lacks || r.Code != decision.NoFreeRoom {
		t.Errorf("a pod that shrinks: %s", r)
	}
	if s, _ := begun(noon, NoProvider, record, 500, nil, web); true {
		if r, lacks := s.Lacks(web); !lacks || r.Code != decision.NoCapacityProvider {
			t.Errorf("without a provider: %s", r)
		}
	}
	if s, _ := begun(noon, NotAsked, record, 500, nil, web); s.IsOn() {
		t.Error("the search is on although no capacity is asked for")
	}
}

// A resize on the node of a placeholder pod gets its room.
func TestSearch_resizeNeedsRoom_placeholderIsGivenUp(t *testing.T) {
	web := eviction("shop", "web")
	own := &cluster.Pod{Key: cluster.PlaceholderOf(web.Pod), UID: "p", Node: "b", Phase: cluster.Running, Placeholder: true, Created: noon,
		Containers: []cluster.Container{{Name: "pause", Requests: cluster.Amounts(2000, gib)}}}
	s, _ := begun(noon, PlaceholderPods, NewRecord(), 500, nil, web, &decision.Decision{Pod: own, Autoscaler: &cluster.Autoscaler{}})
	if r := s.Of(web.Pod); r == nil || r.State != cluster.RequestProvided || len(s.Held) != 1 {
		t.Fatalf("request %+v", r)
	}
	n := &placement.Room{Node: &cluster.Node{Name: "b"}, Free: room.Amount{CPU: -100}}
	s.GiveUp(n, room.Amount{CPU: 200})
	s.GiveUp(n, room.Amount{CPU: 200})
	if n.Free.CPU != 1900 {
		t.Errorf("%dm are free, want the room of the placeholder pod once", n.Free.CPU)
	}
	s.Release(map[cluster.Key]*decision.Decision{own.Key: web})
	if len(s.Steps) != 1 || s.Steps[0].Release != ReleaseNeeded {
		t.Errorf("steps %+v", s.Steps)
	}
}

func TestRecord_requestIsGone_isLearnt(t *testing.T) {
	record, web := NewRecord(), eviction("shop", "web")
	w := web.Pod.Workload()
	ds := []decision.Decision{*web}
	record.Asked(noon, web.Pod)
	record.Learn(noon.Add(time.Minute), nil, ds)
	if record.Of(w).Requested.IsZero() {
		t.Error("a request that is not shown yet counts as gone")
	}
	record.Learn(noon.Add(shownWithin), nil, ds)
	if got := record.Of(w); got.Failures != 1 || got.Text != requestLost {
		t.Errorf("gone: %+v", got)
	}
	record.Asked(noon.Add(time.Hour), web.Pod)
	record.Learn(noon.Add(time.Hour), nil, nil)
	if got := record.Of(w); got.UID != "" || got.Failures != 1 {
		t.Errorf("the pod is gone: %+v", got)
	}
	record.Learn(noon.Add(attempt.HistoryTTL+time.Hour), nil, ds)
	for of := range record.All() {
		t.Errorf("%v is remembered after a day", of)
	}
	record.Restore(noon, w, State{UID: "u", Requested: noon.Add(time.Hour), Failures: 1 << 30, Text: strings.Repeat("x", 1000)})
	record.Restore(noon, w, State{})
	if got := record.Of(w); !got.Requested.Equal(noon) || got.Failures != attempt.MaxCount || len(got.Text) > attempt.MaxText+len("…") {
		t.Errorf("restored %+v", got)
	}
}
