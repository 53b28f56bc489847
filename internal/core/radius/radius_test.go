// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package radius

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/ledger"
)

const gib = 1 << 30

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// podsOf returns running pods of a namespace that request 1 CPU and 1 GiB each.
func podsOf(namespace string, n int) []*cluster.Pod {
	var out []*cluster.Pod
	for i := range n {
		name := fmt.Sprint("web-", i)
		out = append(out, &cluster.Pod{
			Key: cluster.Key{Namespace: namespace, Name: name}, UID: namespace + name, Node: "n", Phase: cluster.Running,
			Top:        cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: namespace, Name: "web"},
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(1000, gib)}},
		})
	}
	return out
}

// bookOf returns a book for 4 pods in each of the namespaces shop and bank.
func bookOf(shares Shares, l *ledger.Ledger) *Book {
	return NewBook(noon, shares, RequestedBy(append(podsOf("shop", 4), podsOf("bank", 4)...)), l)
}

// exceeded returns a reason to wait because of a share.
func exceeded(have, want int, text string, until time.Time) decision.Reason {
	return decision.Reason{Code: decision.BlastRadius, Have: have, Want: want, Text: text, Until: until}
}

func TestRunning_onlyWhatANodeHasGranted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster.Pod)
		want   cluster.Resources
	}{
		"running":       {change: func(*cluster.Pod) {}, want: cluster.Amounts(1000, gib)},
		"not started":   {change: func(p *cluster.Pod) { p.Phase = cluster.Pending }},
		"not scheduled": {change: func(p *cluster.Pod) { p.Node = "" }},
		"finished":      {change: func(p *cluster.Pod) { p.Phase = cluster.Succeeded }},
		"a sidecar counts": {
			change: func(p *cluster.Pod) {
				p.Containers = append(p.Containers, cluster.Container{Role: cluster.Sidecar, Requests: cluster.Amounts(100, gib)})
			},
			want: cluster.Amounts(1100, 2*gib),
		},
		"an init container does not": {
			change: func(p *cluster.Pod) {
				p.Containers = append(p.Containers, cluster.Container{Role: cluster.Init, Requests: cluster.Amounts(100, gib)})
			},
			want: cluster.Amounts(1000, gib),
		},
		"during a resize, the actual request": {
			change: func(p *cluster.Pod) {
				p.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(500, gib)}
			},
			want: cluster.Amounts(500, gib),
		},
	} {
		p := podsOf("shop", 1)[0]
		c.change(p)
		if got := Running(p); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRequestedBy_sumsTheLivePodsOfEachNamespace(t *testing.T) {
	pods := append(podsOf("shop", 3), podsOf("bank", 1)...)
	pods[0].Deleting = true
	want := map[string]cluster.Resources{"shop": cluster.Amounts(2000, 2*gib), "bank": cluster.Amounts(1000, gib)}
	if got := RequestedBy(pods); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestShares_limitsRadius(t *testing.T) {
	for s, want := range map[Shares]bool{
		{NamespaceShare: 1, ClusterShare: 1}:   false,
		{NamespaceShare: 2, ClusterShare: 1}:   false,
		{NamespaceShare: 0.9, ClusterShare: 1}: true,
		{NamespaceShare: 1, ClusterShare: 0.9}: true,
	} {
		if got := s.LimitsRadius(); got != want {
			t.Errorf("%+v: %v", s, got)
		}
	}
}

func TestBook_noLimit_nothingIsExceeded(t *testing.T) {
	b := bookOf(Shares{NamespaceShare: 1, ClusterShare: 1}, ledger.New())
	if b != nil {
		t.Fatalf("book %+v", b)
	}
	p := podsOf("shop", 1)[0]
	b.Plan(p)
	b.Withdraw(p)
	if r, exceeded := b.Exceeded(p); exceeded {
		t.Errorf("exceeded: %s", r)
	}
}

// The first change of an hour is always possible, because otherwise large pods would never be changed.
func TestBook_plannedChanges_countUntilTheyAreWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		shares Shares
		most   int // changes of shop that are possible
		want   decision.Reason
		others bool // pods of bank may change, too
	}{
		"half of a namespace":      {shares: Shares{NamespaceShare: 0.5, ClusterShare: 1}, most: 2, want: exceeded(75, 50, "namespace shop", time.Time{}), others: true},
		"half of the cluster":      {shares: Shares{NamespaceShare: 1, ClusterShare: 0.5}, most: 4},
		"a quarter of the cluster": {shares: Shares{NamespaceShare: 1, ClusterShare: 0.25}, most: 2, want: exceeded(38, 25, "the cluster", time.Time{})},
		"less than one pod":        {shares: Shares{NamespaceShare: 0.01, ClusterShare: 1}, most: 1, want: exceeded(50, 1, "namespace shop", time.Time{}), others: true},
		"both":                     {shares: Shares{NamespaceShare: 0.25, ClusterShare: 0.125}, most: 1, want: exceeded(50, 25, "namespace shop", time.Time{})},
	} {
		b := bookOf(c.shares, ledger.New())
		pods := podsOf("shop", 4)
		for i, p := range pods[:c.most] {
			if r, exceeded := b.Exceeded(p); exceeded {
				t.Errorf("%s: change %d exceeds the share: %s", name, i, r)
			}
			b.Plan(p)
		}
		if c.most < len(pods) {
			if r, exceeded := b.Exceeded(pods[c.most]); !exceeded || r != c.want {
				t.Errorf("%s: exceeded %v, %+v", name, exceeded, r)
			}
		}
		if r, exceeded := b.Exceeded(podsOf("bank", 1)[0]); exceeded == c.others {
			t.Errorf("%s: exceeded %v for another namespace, %+v", name, exceeded, r)
		}
		b.Withdraw(pods[0])
		if r, exceeded := b.Exceeded(pods[0]); exceeded {
			t.Errorf("%s: exceeded after a change was withdrawn: %+v", name, r)
		}
	}
}

func TestBook_exceeded_namespaceWithoutPodsBefore_onlyTheClusterCounts(t *testing.T) {
	for share, want := range map[float64]bool{1: false, 0.5: true} {
		b := bookOf(Shares{NamespaceShare: 0.9, ClusterShare: share}, ledger.New())
		for _, p := range append(podsOf("shop", 4), podsOf("bank", 4)...) {
			b.Plan(p)
		}
		p := podsOf("new", 1)[0]
		b.Plan(p)
		if r, got := b.Exceeded(p); got != want || got && r.Text != "the cluster" {
			t.Errorf("share %v of the cluster: exceeded %v, %+v", share, got, r)
		}
	}
}

func TestBook_exceeded_podThatDoesNotRun_doesNotWait(t *testing.T) {
	b := bookOf(Shares{NamespaceShare: 0.01, ClusterShare: 0.01}, ledger.New())
	pods := podsOf("shop", 3)
	b.Plan(pods[0])
	pods[1].Phase = cluster.Pending
	pods[2].Node = ""
	for _, p := range pods[1:] {
		if r, exceeded := b.Exceeded(p); exceeded {
			t.Errorf("%s: %s", p.Name, r)
		}
		b.Plan(p)
	}
	if got := b.Cluster.Planned; got != cluster.Amounts(1000, gib) {
		t.Errorf("%v is planned, want only the pod that runs", got)
	}
}

func TestNewBook_changesOfTheLastHour_count(t *testing.T) {
	until := noon.Add(-30*time.Minute + time.Hour + time.Minute)
	namespace := Shares{NamespaceShare: 0.25, ClusterShare: 1}
	both := cluster.Amounts(2000, 2*gib)
	for name, c := range map[string]struct {
		shares  Shares
		of      string // namespace of the change
		size    cluster.Resources
		ago     time.Duration
		times   int
		want    decision.Reason
		allowed bool
	}{
		"in the namespace": {
			shares: namespace, of: "shop", size: both, ago: 30 * time.Minute,
			want: exceeded(75, 25, "namespace shop", until),
		},
		"in another namespace": {
			shares: namespace, of: "bank", size: both, ago: 30 * time.Minute,
			allowed: true,
		},
		"in the cluster": {
			shares: Shares{NamespaceShare: 1, ClusterShare: 0.25}, of: "bank", size: both, ago: 30 * time.Minute,
			want: exceeded(38, 25, "the cluster", until),
		},
		"in a namespace without pods": {
			shares: Shares{NamespaceShare: 1, ClusterShare: 0.25}, of: "old", size: both, ago: 30 * time.Minute,
			allowed: true,
		},
		"longer ago": {
			shares: namespace, of: "shop", size: both, ago: 2 * time.Hour,
			allowed: true,
		},
		"more than the namespace has": {
			shares: Shares{NamespaceShare: 1, ClusterShare: 0.6}, of: "bank", size: cluster.Amounts(1e6, 1e6*gib), ago: 30 * time.Minute,
			want: exceeded(63, 60, "the cluster", until),
		},
		"all of one namespace, but once": {
			shares: Shares{NamespaceShare: 1, ClusterShare: 0.7}, of: "bank", size: cluster.Amounts(4000, 4*gib), times: 3, ago: 30 * time.Minute,
			allowed: true,
		},
	} {
		l := ledger.New()
		for range max(1, c.times) {
			l.RecordChange(noon.Add(-c.ago), podsOf(c.of, 1)[0], c.size)
		}
		r, got := bookOf(c.shares, l).Exceeded(podsOf("shop", 1)[0])
		if got == c.allowed || r != c.want {
			t.Errorf("%s: exceeded %v, %+v", name, got, r)
		}
	}
}

// An earlier updater could not store what it changed.
func TestNewBook_changesAreUnknown_nothingChangesForAnHour(t *testing.T) {
	l := ledger.New()
	l.AssumeChanges(noon.Add(-10 * time.Minute))
	shares := Shares{NamespaceShare: 0.5, ClusterShare: 1}
	p := podsOf("shop", 1)[0]
	if r, got := bookOf(shares, l).Exceeded(p); !got || r != exceeded(0, 0, "", noon.Add(50*time.Minute)) {
		t.Errorf("exceeded %v, %+v", got, r)
	}
	p.Node = ""
	if r, got := bookOf(shares, l).Exceeded(p); got {
		t.Errorf("a pod that does not run waits: %+v", r)
	}
	l.AssumeChanges(noon.Add(-time.Hour))
	if r, got := bookOf(shares, l).Exceeded(podsOf("shop", 1)[0]); got {
		t.Errorf("after an hour: %+v", r)
	}
}
