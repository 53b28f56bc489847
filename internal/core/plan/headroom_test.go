// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/ledger"
)

func (s *script) setProvider(f []string) error {
	s.provider = map[string]headroom.Provider{
		"off": headroom.NotAsked, "none": headroom.NoProvider, "placeholders": headroom.PlaceholderPods, "requests": headroom.ProvisioningRequests, "both": headroom.PlaceholderPods | headroom.ProvisioningRequests,
	}[f[0]]
	return nil
}

// provision sets the state of the headroom.ProvisioningRequests.
func (s *script) provision(f []string) error {
	for i := range s.requests {
		r := &s.requests[i]
		switch f[0] {
		case "accepts":
			r.State = cluster.RequestAccepted
		case "provides":
			r.State = cluster.RequestProvided
		case "fails":
			r.State, r.Text = cluster.RequestFailed, strings.Join(f[1:], " ")
		}
	}
	return nil
}

// scheduleAll places the pods without a node.
func (s *script) scheduleAll([]string) error {
	for _, p := range s.pods {
		if p.Node == "" && len(s.nodes) > 0 {
			p.Node = s.nodes[0].Name
			s.schedule(p)
		}
	}
	return nil
}

func (s *script) losePlaceholder(f []string) error {
	key := parseKey(f[0])
	for _, p := range slices.Clone(s.pods) {
		if p.Key == key {
			s.remove(cluster.PlaceholderOf(p))
		}
	}
	return nil
}

// placeholderOf returns the name of a placeholder in the transcripts. The real name has no meaning for readers.
func placeholderOf(pod cluster.Key) cluster.Key {
	return cluster.Key{Namespace: pod.Namespace, Name: "placeholder-" + pod.Name}
}

func (s *script) remove(key cluster.Key) {
	s.pods = slices.DeleteFunc(s.pods, func(p *cluster.Pod) bool { return p.Key == key })
	s.requests = slices.DeleteFunc(slices.Clone(s.requests), func(r cluster.CapacityRequest) bool { return r.Key == key })
}

// executeCapacity creates and deletes requests for capacity, as the API server answers.
func (s *script) executeCapacity(pass *Pass, out io.Writer) {
	steps := pass.CapacitySteps()
	for i := range steps {
		step := &steps[i]
		act, key, why := "reserve", cluster.Key{}, ""
		if step.Request != nil {
			act, key, why = "release", step.Request.Key, " ("+string(step.Release)+")"
		}
		if step.Kind == cluster.ProvisioningRequest {
			why += " ProvisioningRequest"
		}
		if step.Pod != nil {
			key = placeholderOf(step.Pod.Key)
		}
		answer := s.answers[key.String()+" "+act]
		if answer == "" {
			answer = "ok"
		}
		fmt.Fprintf(out, "%s %s%s: %s\n", act, key, why, answer)
		if answer == "ok" || answer == "late" {
			s.applyCapacity(step)
		}
		if answer == "ok" {
			pass.CapacityDone(step)
			continue
		}
		pass.CapacityRefused(step, decision.Refusal{Kind: refusalKinds[answer], Text: answer})
	}
}

func (s *script) applyCapacity(step *headroom.Step) {
	if step.Request != nil {
		s.remove(step.Request.Key)
		return
	}
	key := cluster.PlaceholderOf(step.Pod)
	if step.Kind == cluster.ProvisioningRequest {
		s.requests = append(slices.Clone(s.requests), cluster.CapacityRequest{Key: key, UID: "uid-" + key.String(), Kind: step.Kind, Created: s.now, Size: step.Size})
		return
	}
	s.pods = append(s.pods, &cluster.Pod{
		Key: key, UID: "uid-" + key.String(), Created: s.now, Phase: cluster.Pending, Priority: -1000000,
		Placeholder: true,
		Containers:  []cluster.Container{{Name: "pause", Requests: step.Size}},
	})
}

// fullScene returns a script in which shop/web-0 waits for capacity.
func fullScene(t *testing.T) *script {
	t.Helper()
	s := newScript()
	s.run(t, "provider placeholders", "node n1 cpu=4 memory=8Gi", "pods shop/web 2 app cpu=2 memory=1Gi", "pod shop/web-0 node=n1", "pod shop/web-1 node=n1",
		"autoscale shop/web mode=Recreate", "advise shop/web app cpu=3 memory=1Gi lower cpu=2500m")
	return s
}

// run runs commands and returns their output.
func (s *script) run(t *testing.T, commands ...string) string {
	t.Helper()
	var out strings.Builder
	for _, c := range commands {
		if err := s.command(strings.Fields(c), &out); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
	}
	return out.String()
}

func TestLedger_restartDuringRequestForCapacity_continues(t *testing.T) {
	for name, c := range map[string]struct {
		before []string
		after  []string
		want   string
	}{
		"watch does not show the placeholder": {[]string{"api shop/placeholder-web-0 reserve=lost", "try"}, []string{"after 1m", "try"}, ""},
		"placeholder waits":                   {[]string{"try"}, []string{"after 1m", "try"}, ""},
		"request has failed":                  {[]string{"api shop/placeholder-web-0 reserve=quota", "try"}, []string{"after 4m", "try"}, ""},
		"back-off has ended":                  {[]string{"api shop/placeholder-web-0 reserve=quota", "try"}, []string{"after 5m", "try"}, "reserve shop/placeholder-web-0: quota\n"},
		"placeholder has a node": {
			[]string{"try", "node n2 cpu=4 memory=8Gi", "scheduler"}, []string{"after 1m", "try"}, "evict shop/web-0: ok\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fullScene(t)
			s.run(t, c.before...)
			s.ledger = restored(s.now, s.ledger, s.budget)
			if got := s.run(t, c.after...); got != c.want {
				t.Errorf("after the restart: %q, want %q", got, c.want)
			}
		})
	}
}

// Without its ledger, the updater finds the placeholder of the one before by its name.
func TestPlan_ledgerIsLost_findsPlaceholder(t *testing.T) {
	s := fullScene(t)
	s.run(t, "try", "node n2 cpu=4 memory=8Gi", "scheduler")
	s.ledger = ledger.New()
	if got := s.run(t, "after 1m", "try"); got != "evict shop/web-0: ok\n" {
		t.Errorf("after the restart: %q, want an eviction", got)
	}
}

func TestPlan_placeholderOfUnknownPod_isDeleted(t *testing.T) {
	s := fullScene(t)
	s.run(t, "try")
	s.pods = slices.DeleteFunc(s.pods, func(p *cluster.Pod) bool { return p.Name == "web-0" })
	steps := Begin(s.now, s.world(), s.budget).CapacitySteps()
	if len(steps) == 0 || steps[0].Request == nil || steps[0].Release != headroom.ReleaseGone {
		t.Errorf("steps %+v, want the deletion first", steps)
	}
}

// The deletions of a pass come before its changes of pods.
func TestPlan_tenantCreatesManyPlaceholders_deletionsOfAPassAreBounded(t *testing.T) {
	s := fullScene(t)
	for i := range 1000 {
		name := fmt.Sprint("fake-", i)
		s.pods = append(s.pods, &cluster.Pod{Key: cluster.Key{Namespace: "aaa", Name: name}, UID: name, Phase: cluster.Pending, Placeholder: true, Created: s.now})
	}
	const mostDeletions = 50 // of requests for unknown pods, in one pass
	deleted, created := 0, 0
	for _, step := range Begin(s.now, s.world(), s.budget).CapacitySteps() {
		if step.Request == nil {
			created++
		} else {
			deleted++
		}
	}
	if deleted != mostDeletions || created == 0 {
		t.Errorf("%d deletions and %d requests for capacity, want %d and some", deleted, created, mostDeletions)
	}
}

func TestLedger_hostileCapacityState_isBounded(t *testing.T) {
	s := fullScene(t)
	w := s.pods[0].Top
	s.ledger.Restore(s.now, []ledger.State{{Workload: w, Capacity: &headroom.State{
		UID: "x", Requested: s.now.Add(100 * 365 * 24 * time.Hour), Failures: 1 << 30, Failed: s.now.Add(100 * 365 * 24 * time.Hour), Text: strings.Repeat("x", 1<<20),
	}}})
	if a := s.ledger.Headroom.Of(w); a.Requested.After(s.now) || a.Failed.After(s.now) || a.Failures > 1000 || len(a.Text) > 303 {
		t.Errorf("restored %v, %v, %d, %d bytes", a.Requested, a.Failed, a.Failures, len(a.Text))
	}
	if got := s.run(t, "after 6h", "try", "after 1m", "try"); got != "reserve shop/placeholder-web-0: ok\n" {
		t.Errorf("after the longest back-off: %q, want a request", got)
	}
}
