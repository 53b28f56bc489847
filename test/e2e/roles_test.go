// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/e2e/bed"
)

// leaderElection has recommenders of another name with leader election. It kills the leader and waits for the next one. It
// suspends that one until a third one leads, and resumes it. The rule sole-leader of the invariants checks who acts.
func leaderElection(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	p.apply(w.manifest(), autoscaler("steady", "", "steady", "Off", "  recommenders: [{name: elected}]"))
	one := p.candidate("one")
	leader := p.leader("")
	two := p.candidate("two")
	p.eventually("the leader recommends", measured, p.recommended("steady", steadyTarget))

	one.Kill()
	leader = p.leader(leader)
	other := steady("other")
	p.apply(other.manifest(), autoscaler("other", "", "other", "Off", "  recommenders: [{name: elected}]"))
	p.eventually("the new leader recommends", measured, p.recommended("other", steadyTarget))

	three := p.candidate("three")
	if err := two.Suspend(); err != nil {
		t.Fatal(err)
	}
	leader = p.leader(leader)
	if err := two.Resume(); err != nil {
		t.Fatal(err)
	}
	p.always("the third one stays the leader", 8*time.Second, func(ctx context.Context) error {
		if now, err := p.holder(ctx); err == nil && now != leader {
			return fmt.Errorf("the holder is %q, want %q", now, leader)
		}
		return nil
	})
	for _, one := range []*bed.Podfit{two, three} {
		if err := one.Stop(); err != nil {
			t.Error(err)
		}
	}
	p.eventually("the last one releases the lease when it ends", 10*time.Second, func(ctx context.Context) error {
		now, err := p.holder(ctx)
		if err == nil && now != "" {
			err = fmt.Errorf("%s holds it", now)
		}
		return err
	})
}

const recommenderLease = "vpa-recommender-lease"

// candidate starts a recommender with leader election.
func (p *place) candidate(name string) *bed.Podfit {
	p.Helper()
	c := recommender().Named("recommender-"+name).With("--recommender-name=elected", "--leader-elect",
		"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s")
	r, err := p.healthy(p.Context(), c)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if p.Failed() {
			p.Logf("%s\n%s", r.Name, r.Tail(40))
		}
		if r.Running() {
			r.Kill()
		}
	})
	return r
}

// holder returns the holder of the lease, or "".
func (p *place) holder(ctx context.Context) (string, error) {
	l, err := p.CoordinationV1().Leases(bed.Namespace).Get(ctx, recommenderLease, metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil {
		return "", err
	}
	return *l.Spec.HolderIdentity, nil
}

// leader waits for a holder of the lease other than the given one, and returns it.
func (p *place) leader(not string) (who string) {
	p.Helper()
	p.eventually("there is another leader", 30*time.Second, func(ctx context.Context) (err error) {
		if who, err = p.holder(ctx); err == nil && (who == "" || who == not) {
			err = fmt.Errorf("the holder is %q", who)
		}
		return err
	})
	return who
}

// TestRun_allJobsInOneProcess_replacesComponents stops the three components and starts podfit run instead.
func TestRun_allJobsInOneProcess_replacesComponents(t *testing.T) {
	p := newPlace(t, "all-in-one")
	for _, c := range p.components() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
	if err := p.Install(t.Context(), filepath.Join(p.root, "deploy", "all-in-one")); err != nil {
		t.Fatal(err)
	}
	serving, err := bed.Serving()
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.healthy(t.Context(), bed.All().With(serving...).With(
		"--recommender-interval=5s", "--updater-interval=5s", "--status-lease-update-interval=2s", "--feature-gates=CPUStartupBoost=true"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("podfit run\n%s", all.Tail(60))
		}
		if err := all.Stop(); err != nil {
			t.Error(err)
		}
		if err := p.startAll(context.Background()); err != nil {
			t.Error(err)
		}
	})
	recreate, inPlace := steady("recreate"), steady("in-place")
	p.apply(recreate.manifest(), recreate.autoscaler("Recreate"), inPlace.manifest(), inPlace.autoscaler("InPlaceOrRecreate"))
	pods := p.start("in-place", 2)
	p.eventually("one workload is sized by eviction", measured+resized, p.sized("recreate", 2, steadyTarget))
	p.checkAnnotations("recreate")
	p.eventually("one workload is resized in place", resized, p.sized("in-place", 2, steadyTarget))
	if err := p.same("in-place", pods)(t.Context()); err != nil {
		t.Error(err)
	}
	p.boosts()
	p.learntBoosts()
}
