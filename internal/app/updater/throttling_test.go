// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/updater/throttling"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rollout"
)

// periods answers queries for the throttling of canaries.
type periods struct {
	canaries float64 // share of throttled periods
	err      error
	value    atomic.Int64 // of objectives
}

func (p *periods) Objective(context.Context, string, string, time.Time) (values []float64, refused string, err error) {
	return []float64{float64(p.value.Load())}, "", p.err
}

func (p *periods) Throttling(context.Context, rollout.ThrottlingQuery, time.Time) ([]rollout.ContainerThrottling, error) {
	if p.err != nil {
		return nil, p.err
	}
	return []rollout.ContainerThrottling{{
		Container: "app", Canaries: rollout.Periods{Throttled: 1000 * p.canaries, All: 1000}, Others: rollout.Periods{All: 1000}, Before: rollout.Periods{Throttled: 20, All: 1000},
	}}, nil
}

func TestUpdater_throttlingOfTheCanary_decidesOrIsReportedAsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		source     *periods // nil: no Prometheus
		limit      bool
		reverted   bool
		comparison rollout.Comparison
		note       string // in the reasons of the pods that wait
	}{
		"throttled much more":      {&periods{canaries: 0.5}, true, true, rollout.Compared, ""},
		"throttled a little more":  {&periods{canaries: 0.1}, true, false, rollout.Compared, ""},
		"Prometheus fails":         {&periods{err: errors.New("503")}, true, false, rollout.NoAnswer, "because Prometheus does not answer."},
		"no Prometheus":            {nil, true, false, rollout.NoPrometheus, "because the updater has no address of Prometheus."},
		"the pods have no limits":  {&periods{canaries: 0.5}, false, false, rollout.NoCPULimit, ""},
		"no limits, no Prometheus": {nil, false, false, rollout.NoCPULimit, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newFakeCluster(cluster.InPlaceOrRecreate)
				y.autoscalers[0].Canary = cluster.Canary{On: true, Watch: 10 * time.Minute}
				if c.limit {
					for _, p := range y.pods {
						p.Containers[0].Limits = cluster.Resources{}.Set(cluster.CPU, 4000)
					}
				}
				u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
				conditions := &conditions{}
				u.conditions.writer = conditions
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				if c.source != nil {
					u.throttling = throttling.New(c.source, time.Minute, u.health, y.log)
					running.Go(func() { u.throttling.Run(ctx) })
				}
				before := y.pods[0].Containers[0].Requests
				var notes []string
				for range 13 {
					for _, d := range u.update(t.Context(), time.Now()) {
						if d.Reason.Note != "" {
							notes = append(notes, d.Reason.Note)
						}
					}
					time.Sleep(time.Minute)
				}
				cancel()
				running.Wait()
				changed := 0
				for _, p := range y.pods {
					if p.Containers[0].Requests != before {
						changed++
					}
				}
				s := u.ledger.Canary(y.autoscalers[0].Target)
				if reverted := s.Cause == rollout.Throttled; reverted != c.reverted || (changed == 0) != c.reverted || s.Comparison != c.comparison {
					t.Errorf("state %+v, %d pods have the new size: %q", s, changed, y.done)
				}
				if said := len(notes) > 0; said != (c.note != "") || said && !strings.HasSuffix(notes[0], c.note) {
					t.Errorf("notes %q", notes)
				}
				if text := strings.Join(conditions.written, "\n"); strings.Contains(text, "web Reverted Throttled: ") != c.reverted {
					t.Errorf("conditions %q", text)
				}
			})
		})
	}
}

// The updater reads from the server of the flags, with the token of the file and the given labels.
func TestConfig_prometheusFlags_selectServerCredentialsAndLabels(t *testing.T) {
	type request struct{ query, authorization string }
	requests := make(chan request, 10)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		requests <- request{r.Form.Get("query"), r.Header.Get("Authorization")}
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	}))
	defer srv.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := given(t, "--prometheus-address="+srv.URL, "--prometheus-insecure", "--prometheus-bearer-token-file="+token,
		"--container-namespace-label=ns", "--container-pod-name-label=p", "--container-name-label=c", "--updater-interval=1s")
	o, err := newThrottling(&c, process.NewHealth(time.Hour), newFakeCluster(cluster.Recreate).log)
	if err != nil || o == nil {
		t.Fatalf("observer %v, error %v", o, err)
	}
	o.Ask(map[cluster.Workload]rollout.ThrottlingQuery{{Name: "web"}: {Namespace: "shop", Canaries: []string{"web-1"}, Since: time.Now().Add(-time.Hour)}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { o.Run(ctx) })
	got := <-requests
	cancel()
	running.Wait()
	if got.authorization != "Bearer secret" || !strings.Contains(got.query, `{ns="shop", p=~"web-1", c!="", c!="POD"}`) {
		t.Errorf("request %+v", got)
	}
}

func TestConfig_prometheusFlagsInvalid_areUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"":                 "",
		"http://p":         "",
		"https://p/prefix": "",
		"p:9090":           "--prometheus-address must be a URL",
		"ftp://p":          "--prometheus-address must be a URL",
		"http://":          "--prometheus-address must be a URL",
	} {
		c := Defaults()
		c.Prometheus.Address = args
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", args, err)
		}
	}
	c := Defaults()
	c.Prometheus.Address, c.Prometheus.PodLabel = "http://p", ""
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--container-pod-name-label must not be empty") {
		t.Errorf("error %v", err)
	}
}

// Without UpdateStates, the webhook does not know which size was reverted.
func TestUpdater_canaryAndStatesCannotBeStored_evictsNothingAndReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.Recreate)
		y.autoscalers[0].Canary = cluster.Canary{On: true, Watch: 10 * time.Minute}
		y.run(t, time.Hour)
		if len(y.done) > 0 || y.eventCount("UpdateHeld") != 1 || countHeld(y.recorded, decision.Reason{Code: decision.NoWayBack}) != 1 {
			t.Errorf("done %q, events %q", y.done, y.recorded)
		}
	})
}

// The other pods wait for the objective, also after the time of the canary, and after a restart of the updater. The condition has the cause.
func TestUpdater_objectiveOfTheCanary_otherPodsWaitUntilItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newFakeCluster(cluster.InPlaceOrRecreate)
		y.autoscalers[0].Canary = cluster.Canary{On: true, Watch: 10 * time.Minute, Objective: cluster.Objective{Query: "errors < 1", Operator: "<", Limit: 1, Span: 5 * time.Minute}}
		source := &periods{}
		source.value.Store(7)
		before := y.pods[0].Containers[0].Requests
		changed := func() (n int) {
			for _, p := range y.pods {
				if p.Containers[0].Requests != before {
					n++
				}
			}
			return n
		}
		u := newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		run := func(minutes int, observer *throttling.Observer) (last decision.Reason) {
			u.throttling = observer
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { observer.Run(ctx) })
			for range minutes {
				for _, d := range u.update(t.Context(), time.Now()) {
					if d.Do == decision.Leave && d.Reason.Code != decision.Fits {
						last = d.Reason
					}
				}
				time.Sleep(time.Minute)
			}
			cancel()
			running.Wait()
			return last
		}
		observer := throttling.New(source, time.Minute, u.health, y.log)
		want := "The canary has run well, but no running pod of the workload is changed while the query of the annotation podfit.dev/canary-query does not hold: its value is not < 1. Its last value was 7."
		if r := run(40, observer); changed() != 1 || r.Code != decision.ObjectiveMissed || r.String() != want {
			t.Errorf("%d pods are changed, reason %s", changed(), r)
		}
		states := u.ledger.Export(u.budget.Delays)
		u = newUpdater(y.config, y, y, y, y, NewMetrics(prometheus.NewRegistry()), process.NewHealth(time.Hour), y.log)
		u.ledger.Restore(time.Now(), states)
		if r := run(1, nil); changed() != 1 || r.Code != decision.ObjectiveMissed || !strings.Contains(r.String(), "no address of Prometheus") {
			t.Errorf("without Prometheus: %d pods are changed, reason %s", changed(), r)
		}
		source.value.Store(0)
		run(20, observer)
		if s := u.ledger.Canary(y.autoscalers[0].Target); changed() != len(y.pods) || s.Phase != rollout.Accepted {
			t.Errorf("%d of %d pods are changed, state %+v", changed(), len(y.pods), s)
		}
	})
}
