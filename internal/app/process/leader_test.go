// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

func quietProcess() *Process {
	return New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// Upstream's processes exit if the API server is unavailable for longer than the lease.
func TestLead_leaseLost_leadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset()
		var away atomic.Bool
		api.PrependReactor("update", "leases", func(kubetesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errors.New("connection refused")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		terms := 0
		p := quietProcess()
		err := Lead(ctx, p, electionGiven(t, "--leader-elect"), api, func(leading context.Context) error {
			if testutil.ToFloat64(p.Metrics.Leading) != 1 {
				t.Error("podfit_leader is not 1 while the process leads")
			}
			if terms++; terms == 2 {
				cancel()
				return nil
			}
			away.Store(true)
			time.AfterFunc(30*time.Second, func() { away.Store(false) })
			<-leading.Done()
			if ctx.Err() != nil || !away.Load() {
				t.Error("the work ran without the lease")
			}
			return nil
		})
		if err != nil || terms != 2 {
			t.Errorf("led %d times, error %v; want 2 times", terms, err)
		}
		if leads, n := testutil.ToFloat64(p.Metrics.Leading), testutil.ToFloat64(p.Metrics.Transitions); leads != 0 || n != 4 {
			t.Errorf("podfit_leader is %v after %v transitions, want 0 after 4", leads, n)
		}
	})
}

const leasesPath = "/apis/coordination.k8s.io/v1/leases"

// leaseServer is an API server with one lease that accepts all other writes. It does not answer the lease requests of some hosts; they end
// when the client cancels them.
type leaseServer struct {
	*kubetest.FakeAPI
	mu      sync.Mutex
	hangs   map[string]bool // hosts whose lease requests are not answered
	renewed map[string]time.Time
}

func serveLeases(t *testing.T) (*leaseServer, func(host string) *kube.Clients) {
	s := &leaseServer{FakeAPI: kubetest.NewLocalAPI(t), hangs: map[string]bool{}, renewed: map[string]time.Time{}}
	s.Handle(s.handle)
	return s, func(host string) *kube.Clients {
		config := kubetest.LocalConfig(s)
		config.Host = "http://" + host
		clients, err := kube.ClientsFor(config)
		if err != nil {
			t.Fatal(err)
		}
		return clients
	}
}

func (s *leaseServer) handle(w http.ResponseWriter, r *http.Request, q kubetest.Request) bool {
	if q.Collection != leasesPath {
		kubetest.Respond(w, http.StatusOK, kubetest.Success)
		return true
	}
	s.mu.Lock()
	hangs := s.hangs[q.Host]
	s.mu.Unlock()
	if hangs {
		return kubetest.NoAnswer(w, r, q)
	}
	answer := httptest.NewRecorder()
	s.Answer(answer, r)
	if answer.Code < 300 && q.Verb != http.MethodGet {
		s.mu.Lock()
		s.renewed[q.Host] = q.At
		s.mu.Unlock()
	}
	kubetest.Respond(w, answer.Code, answer.Body.String())
	return true
}

func (s *leaseServer) hang(host string, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs[host] = hangs
}

// of returns the first and the last write of a host, except those of leases.
func (s *leaseServer) of(host string) (first, last time.Time) {
	for _, q := range s.Log() {
		if q.Host == host && q.Collection != leasesPath {
			if first.IsZero() {
				first = q.At
			}
			last = q.At
		}
	}
	return first, last
}

// take gives the lease to another process.
func (s *leaseServer) take(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(s.Object(leasesPath, s.Keys(leasesPath)[0]))
	if err != nil {
		t.Fatal(err)
	}
	var lease coordinationv1.Lease
	if err := json.Unmarshal(text, &lease); err != nil {
		t.Fatal(err)
	}
	lease.Spec.HolderIdentity = new("another")
	if text, err = json.Marshal(lease); err != nil {
		t.Fatal(err)
	}
	s.Apply(leasesPath, string(text))
}

// writing returns work that writes every 100 milliseconds until its context ends, and then final writes as long as WindUp allows.
func writing(clients *kube.Clients) func(context.Context) error {
	return func(ctx context.Context) error {
		write := func(ctx context.Context) {
			_ = clients.Core.CoreV1().Pods("shop").Delete(ctx, "web-0", metav1.DeleteOptions{})
		}
		for ctx.Err() == nil {
			write(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		ctx, cancel := WindUp(ctx, time.Minute)
		defer cancel()
		for ctx.Err() == nil { // it uses all the time that it gets
			write(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return nil
	}
}

// The worst case: the API server answers all requests except the lease requests of the leader.
func TestLead_renewalsHang_noWriteAfterTheLeaseAndNeverTwoWriters(t *testing.T) {
	for name, flags := range map[string][]string{
		"defaults":     {"--leader-elect"},
		"small margin": {"--leader-elect", "--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=14900ms"},
		"fractions":    {"--leader-elect", "--leader-elect-lease-duration=5900ms", "--leader-elect-renew-deadline=5800ms"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := electionGiven(t, flags...)
				s, connect := serveLeases(t)
				ctx, cancel := context.WithCancel(t.Context())
				var both sync.WaitGroup
				run := func(host string) {
					clients := connect(host)
					both.Go(func() {
						if err := Lead(ctx, quietProcess(), e, clients.Leases, writing(clients)); err != nil {
							t.Error(err)
						}
					})
				}
				run("one")
				time.Sleep(10 * time.Second)
				run("two")
				time.Sleep(time.Minute)
				s.hang("one", true)
				time.Sleep(time.Minute)
				cancel()
				both.Wait()

				s.mu.Lock()
				renewed := s.renewed["one"]
				s.mu.Unlock()
				_, last := s.of("one")
				first, _ := s.of("two")
				whole := e.LeaseDuration.Truncate(time.Second)
				if d := last.Sub(renewed); d >= whole {
					t.Errorf("the last write was %s after the last renewal, want less than the %s of the lease", d, whole)
				}
				if first.IsZero() || !first.After(last) {
					t.Errorf("the second process wrote %s after the last write of the first, want later than that", first.Sub(last))
				}
			})
		})
	}
}

// The lease is deleted, and another process acquires it before the leader reads it again.
func TestLead_leaseTakenByAnother_workEndsAtNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := electionGiven(t, "--leader-elect")
		s, connect := serveLeases(t)
		clients := connect("one")
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = Lead(ctx, quietProcess(), e, clients.Leases, writing(clients)) })
		time.Sleep(time.Minute)
		s.take(t)
		taken := time.Now()
		time.Sleep(10 * time.Second)
		if _, last := s.of("one"); last.Sub(taken) > e.RetryPeriod {
			t.Errorf("the leader wrote for %s after another process had acquired the lease", last.Sub(taken))
		}
		cancel()
		running.Wait()
	})
}

// A process that stops keeps the lease during its final writes. Then another process can acquire it immediately.
func TestLead_contextEnds_releasesLeaseAfterWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := electionGiven(t, "--leader-elect")
		s, connect := serveLeases(t)
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		defer endSecond()
		one, two := connect("one"), connect("two")
		var both sync.WaitGroup
		both.Go(func() {
			_ = Lead(first, quietProcess(), e, one.Leases, func(ctx context.Context) error {
				<-ctx.Done()
				ctx, cancel := WindUp(ctx, time.Minute)
				defer cancel()
				time.Sleep(30 * time.Second) // longer than a lease that is not renewed
				return one.Core.CoreV1().Pods("shop").Delete(ctx, "web-0", metav1.DeleteOptions{})
			})
		})
		time.Sleep(time.Second)
		both.Go(func() { _ = Lead(second, quietProcess(), e, two.Leases, writing(two)) })
		time.Sleep(10 * time.Second)
		endFirst()
		time.Sleep(time.Minute)
		endSecond()
		both.Wait()
		_, last := s.of("one")
		began, _ := s.of("two")
		if last.IsZero() || !began.After(last) || began.Sub(last) > 2*e.RetryPeriod+time.Second {
			t.Errorf("the second process began %s after the last write of the first, at %s", began.Sub(last), last)
		}
	})
}

// If the request that releases the lease hangs, the work ends without delay, and the process ends after releaseTimeout.
func TestLead_releaseHangs_workEndsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := electionGiven(t, "--leader-elect")
		s, connect := serveLeases(t)
		clients := connect("one")
		ctx, cancel := context.WithCancel(t.Context())
		var workEnded time.Time
		ended := make(chan time.Time)
		go func() {
			_ = Lead(ctx, quietProcess(), e, clients.Leases, func(ctx context.Context) error {
				<-ctx.Done()
				workEnded = time.Now()
				return nil
			})
			ended <- time.Now()
		}()
		time.Sleep(time.Minute)
		s.hang("one", true)
		canceled := time.Now()
		cancel()
		if at := <-ended; workEnded.Sub(canceled) > 0 || at.Sub(canceled) > releaseTimeout {
			t.Errorf("the work ended %s and the process %s after the context", workEnded.Sub(canceled), at.Sub(canceled))
		}
	})
}

// A lease stores its duration in whole seconds, so a shorter one would expire immediately.
func TestElection_leaseShorterThanOneSecond_isRejected(t *testing.T) {
	e := ElectionDefaults("lease")
	e.Enabled, e.LeaseDuration, e.RenewDeadline, e.RetryPeriod = true, 900*time.Millisecond, 500*time.Millisecond, 100*time.Millisecond
	if err := e.Validate(); err == nil || !strings.Contains(err.Error(), "--leader-elect-lease-duration must be at least 1s, got 900ms") {
		t.Errorf("lease of 900ms: got error %v", err)
	}
	e.LeaseDuration = time.Second
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
}

func TestLead_electionFlags_areApplied(t *testing.T) {
	api := fake.NewClientset()
	e := electionGiven(t, "--leader-elect", "--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=infra",
		"--leader-elect-lease-duration=44s", "--leader-elect-renew-deadline=33s", "--leader-elect-retry-period=50ms", "--leader-elect-resource-lock=leases")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	worked := false
	if err := Lead(ctx, quietProcess(), e, api, func(ctx context.Context) error {
		worked = true
		l, err := api.CoordinationV1().Leases("infra").Get(ctx, "mine", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
		} else if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || *l.Spec.LeaseDurationSeconds != 44 {
			t.Errorf("got lease %+v", l.Spec)
		}
		cancel()
		return nil
	}); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	if !worked {
		t.Error("no leader was elected")
	}
	api = fake.NewClientset()
	if err := Lead(t.Context(), quietProcess(), electionGiven(t), api, func(context.Context) error { return nil }); err != nil || len(api.Actions()) > 0 {
		t.Errorf("without election: got error %v and requests %v, want none", err, api.Actions())
	}
}
