// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package enrollment

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/optin"
	"podfit.dev/podfit/internal/edge/kube"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A fakeCluster is a world and a client. Writes change the autoscalers at once.
type fakeCluster struct {
	namespaces  []optin.Namespace
	workloads   []cluster.Workload
	nested      map[cluster.Workload]bool // not topmost
	autoscalers map[cluster.Key]*cluster.Autoscaler
	stale       []string
	listErr     error
	err         error // of writes
	lost        bool  // writes are done, and have no effect
	sent        []string
	asked       []string // namespaces of the workloads whose owners were looked up, each of which may be a request
}

func newCluster() *fakeCluster {
	return &fakeCluster{
		namespaces:  []optin.Namespace{{Name: "shop", On: true, Setting: optin.Setting{Mode: cluster.Off, Profile: "default"}}, {Name: "bank"}},
		autoscalers: map[cluster.Key]*cluster.Autoscaler{}, nested: map[cluster.Workload]bool{},
		workloads: []cluster.Workload{
			{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, {Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "report"},
			{Group: "apps", Kind: "Deployment", Namespace: "bank", Name: "web"},
		},
	}
}

func (f *fakeCluster) Stale(time.Time) []string { return f.stale }

func (f *fakeCluster) Autoscalers() (out []*cluster.Autoscaler) {
	for _, a := range f.autoscalers {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *cluster.Autoscaler) int { return a.Compare(b.Key) })
	return out
}

func (f *fakeCluster) TargetProblem(a *cluster.Autoscaler) (string, bool) {
	f.asked = append(f.asked, a.Target.Namespace)
	if f.nested[a.Target] {
		return "has a parent", true
	}
	return "", true
}

func (f *fakeCluster) Workloads(group, kind, _ string) (out []cluster.Workload) {
	for _, w := range f.workloads {
		if w.Group == group && w.Kind == kind {
			out = append(out, w)
		}
	}
	return out
}

func (f *fakeCluster) Namespaces(context.Context) ([]optin.Namespace, error) {
	return slices.Clone(f.namespaces), f.listErr
}

func (f *fakeCluster) Write(_ context.Context, now time.Time, c *optin.Change) error {
	key := optin.Key(c.Target)
	f.sent = append(f.sent, c.Act+" "+key.String())
	switch {
	case f.err != nil || f.lost:
	case c.Act == "delete":
		delete(f.autoscalers, key)
	case c.Act == "end":
		f.autoscalers[key].OptInEnded = now
	default:
		s := &c.Setting
		f.autoscalers[key] = &cluster.Autoscaler{Key: key, Target: c.Target, Mode: s.Mode, Recommender: s.Profile, Policies: []cluster.ContainerPolicy{s.Policy}, OptedIn: true}
	}
	return f.err
}

// A bench is a loop with a fake cluster.
type bench struct {
	t *testing.T
	*fakeCluster
	loop *Loop
	log  bytes.Buffer
	now  time.Time
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, fakeCluster: newCluster(), now: noon}
	b.restart()
	return b
}

// restart begins a new term of leadership.
func (b *bench) restart() {
	b.loop = &Loop{
		World: b.fakeCluster, Client: b.fakeCluster, Serves: func(ns string) bool { return ns != "kube-system" }, Book: optin.Book{},
		Writes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "writes"}, []string{"act", "outcome"}), Log: slog.New(slog.NewTextHandler(&b.log, nil)),
	}
}

// pass makes a pass per minute and returns the writes.
func (b *bench) pass(passes int) string {
	b.sent = nil
	for range passes {
		b.loop.Pass(b.t.Context(), b.now)
		b.now = b.now.Add(time.Minute)
	}
	return strings.Join(b.sent, ", ")
}

func (b *bench) want(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: %q, want %q\n%s", what, got, want, b.log.String())
	}
}

const (
	webVPA    = "shop/podfit-deployment-web"
	reportVPA = "shop/podfit-cronjob-report"
)

func TestLoop_lifeOfTheLabel_isFollowedAcrossRestarts(t *testing.T) {
	b := newBench(t)
	b.want("opted in", b.pass(3), "create "+webVPA+", create "+reportVPA)
	b.namespaces[0].Setting.Mode = cluster.Initial
	b.want("another mode", b.pass(3), "update "+reportVPA+", update "+webVPA)
	b.namespaces[0] = optin.Namespace{Name: "shop"}
	b.want("label removed", b.pass(5), "end "+reportVPA+", end "+webVPA)
	b.restart()
	b.want("restarted", b.pass(5), "")
	b.want("after ten minutes", b.pass(3), "delete "+reportVPA+", delete "+webVPA)
	if len(b.autoscalers) != 0 {
		t.Errorf("left: %v", b.autoscalers)
	}
}

func TestLoop_namespaceDoesNotOptIn_ownersAreNotLookedUp(t *testing.T) {
	b := newBench(t)
	b.pass(1)
	if slices.Contains(b.asked, "bank") || !slices.Contains(b.asked, "shop") {
		t.Errorf("asked about %q", b.asked)
	}
}

func TestLoop_workloadHasAnOwner_getsNoAutoscaler(t *testing.T) {
	b := newBench(t)
	b.nested[b.workloads[0]] = true
	b.namespaces = append(b.namespaces, optin.Namespace{Name: "kube-system", On: true}) // not served
	b.workloads = append(b.workloads, cluster.Workload{Group: "apps", Kind: "DaemonSet", Namespace: "kube-system", Name: "proxy"})
	b.want("writes", b.pass(2), "create "+reportVPA)
}

func TestLoop_clusterIsNotKnown_nothingIsWritten(t *testing.T) {
	for name, change := range map[string]func(*fakeCluster){
		"stale watch": func(f *fakeCluster) { f.stale = []string{"verticalpodautoscalers"} },
		"no right":    func(f *fakeCluster) { f.listErr = errors.New("no right to list namespaces") },
	} {
		b := newBench(t)
		change(b.fakeCluster)
		b.want(name, b.pass(5), "")
		if said := strings.Count(b.log.String(), "Cannot maintain the VPAs of namespaces that opt in\" error=\"no right to list namespaces\" remedy=\"kubectl apply -f deploy/rights/namespace-opt-in/"); (said == 1) != (b.stale == nil) || said > 1 {
			t.Errorf("%s: logged %d times:\n%s", name, said, b.log.String())
		}
		b.stale, b.listErr = nil, nil
		b.want(name+", repaired", b.pass(1), "create "+webVPA+", create "+reportVPA)
	}
}

func TestLoop_invalidLabel_isLoggedOnceAndNothingChanges(t *testing.T) {
	b := newBench(t)
	b.pass(1)
	b.namespaces[0] = optin.Namespace{Name: "shop", On: true, Problem: "podfit.dev/autoscale is \"on\"; set off"}
	b.want("writes", b.pass(30), "")
	if n := strings.Count(b.log.String(), "leaves its VPAs as they are"); n != 1 || !strings.Contains(b.log.String(), "namespace=shop") {
		t.Errorf("logged %d times:\n%s", n, b.log.String())
	}
}

func TestLoop_writesHaveNoEffect_areRepeatedRarelyAndReported(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*fakeCluster)
		outcome string
		logged  string
	}{
		"refused":        {func(f *fakeCluster) { f.err = kube.WithReason(kube.ErrDenied, errors.New("a policy says no")) }, "failed", "a policy says no"},
		"unknown":        {func(f *fakeCluster) { f.err = errors.New("timeout") }, "failed", "timeout"},
		"without effect": {func(f *fakeCluster) { f.lost = true }, "done", "Another client undoes this change"},
	} {
		b := newBench(t)
		b.workloads = b.workloads[:1]
		c.change(b.fakeCluster)
		if n := strings.Count(b.pass(60), "create"); n != 5 {
			t.Errorf("%s: %d writes in an hour, want 5", name, n)
		}
		if got := testutil.ToFloat64(b.loop.Writes.WithLabelValues("create", c.outcome)); got != 5 {
			t.Errorf("%s: the metric is %v", name, got)
		}
		if n := strings.Count(b.log.String(), "level=WARN"); n < 1 || n > 5 || !strings.Contains(b.log.String(), c.logged) {
			t.Errorf("%s: %d warnings:\n%s", name, n, b.log.String())
		}
	}
}

func TestLoop_dryRun_saysWhatItWouldWrite(t *testing.T) {
	b := newBench(t)
	b.loop.DryRun = true
	b.want("writes", b.pass(2), "")
	if n := strings.Count(b.log.String(), "Would write"); n != 2 || !strings.Contains(b.log.String(), "action=create vpa="+webVPA) {
		t.Errorf("logged %d times:\n%s", n, b.log.String())
	}
}

func TestLoop_writeSucceedsAfterFailures_noOtherClientIsBlamed(t *testing.T) {
	b := newBench(t)
	b.workloads = b.workloads[:1]
	b.err = errors.New("timeout")
	b.pass(20)
	b.err = nil
	b.log.Reset()
	b.want("writes", b.pass(20), "create "+webVPA)
	if strings.Contains(b.log.String(), "Another client") {
		t.Errorf("log:\n%s", b.log.String())
	}
}

// slowList is a client whose list of namespaces takes longer than a pass.
type slowList struct{ *fakeCluster }

func (slowList) Namespaces(ctx context.Context) ([]optin.Namespace, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestLoop_namespacesAreNotReadInTime_isReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.loop.Client = slowList{b.fakeCluster}
		b.pass(3)
		if n := strings.Count(b.log.String(), "Cannot maintain the VPAs"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, b.log.String())
		}
	})
}
