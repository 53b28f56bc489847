// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/checkpoint"
	"podfit.dev/podfit/test/kubetest"
)

const (
	listHistories   = "GET /apis/podfit.dev/v1alpha1/usagehistories"
	listCheckpoints = "GET /apis/autoscaling.k8s.io/v1/verticalpodautoscalercheckpoints"
	rightMissing    = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no right to list"}`
)

// unreadBench is a bench whose history is in an API server.
type unreadBench struct {
	*bench
	api *kubetest.FakeAPI
	log bytes.Buffer
}

func newUnreadBench(t *testing.T) (*unreadBench, cluster.Workload) {
	b := &unreadBench{bench: newBench(t), api: kubetest.NewLocalAPI(t)}
	b.use["app"] = cluster.Amounts(300, 200<<20)
	w := b.deployment("web", 2, "app")
	b.autoscale("web", w).Recommender = "balanced"
	return b, w
}

// recommender returns a new process.
func (b *unreadBench) recommender() *recommender {
	b.t.Helper()
	clients, err := kube.ClientsFor(kubetest.LocalConfig(b.api))
	if err != nil {
		b.t.Fatal(err)
	}
	d := b.dependencies()
	d.log = slog.New(slog.NewTextHandler(&b.log, nil))
	o := checkpoint.StorageOptions{Log: d.log}
	histories := checkpoint.NewHistories(clients, o)
	d.storage.Checkpoints, d.storage.ModelStates = checkpoint.NewCheckpoints(clients, o), histories
	return newRecommender(b.config, d)
}

// started returns a new process that has loaded what is stored.
func (b *unreadBench) started() *recommender {
	b.t.Helper()
	r := b.recommender()
	if err := r.load(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// passes makes passes for a time, and stores everything if the process ends after them.
func (b *unreadBench) passes(r *recommender, d time.Duration, ends bool) {
	for range d / b.config.Interval {
		r.pass(b.t.Context(), time.Now())
		time.Sleep(b.config.Interval)
	}
	if ends {
		r.end(b.t.Context())
	}
}

// startOfModelState returns when the model state of container app was started.
func startOfModelState(t *testing.T, r *recommender, w cluster.Workload) time.Time {
	t.Helper()
	series := r.usageStore.Series(w, "app")
	if series == nil || series.Extension() == nil {
		t.Fatal("there is no model state")
	}
	return series.Extension().Since()
}

// The right to list UsageHistories is missing at the start, as after an update of the roles. It is granted while the recommender runs, or
// before the next start.
func TestUnread_rightGrantedLater_storedModelStateIsUsedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, restart := range map[string]bool{"while the recommender runs": false, "before a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, web := newUnreadBench(t)
				r := b.started()
				b.passes(r, 3*24*time.Hour, true)
				began := startOfModelState(t, r, web)

				b.api.Reply(listHistories, http.StatusForbidden, rightMissing)
				r = b.started()
				b.passes(r, 3*time.Hour, restart)
				if !startOfModelState(t, r, web).After(began) {
					t.Fatal("the stored model state was read without the right")
				}
				if n := strings.Count(b.log.String(), "level=WARN"); n != 1 || !strings.Contains(b.log.String(), "usagehistories.podfit.dev") {
					t.Errorf("%d warnings, want one with the right: %s", n, &b.log)
				}
				b.api.ForgetReply(listHistories)
				if restart {
					r = b.started()
				}
				b.passes(r, time.Hour, true)
				if got := startOfModelState(t, r, web); !got.Equal(began) {
					t.Errorf("the model state starts at %v, want %v", got, began)
				}
				r = b.started()
				b.passes(r, 2*b.config.Interval, false)
				if got := startOfModelState(t, r, web); !got.Equal(began) {
					t.Errorf("after another restart, the model state starts at %v, want %v", got, began)
				}
			})
		})
	}
}

// Reading is tried again with a back-off.
func TestUnread_rightStaysMissing_attemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newUnreadBench(t)
		b.api.Reply(listHistories, http.StatusForbidden, rightMissing)
		r := b.started()
		before := b.api.Refusals(listHistories)
		b.passes(r, 4*time.Hour, false)
		if n := b.api.Refusals(listHistories) - before; n < 20 || n > 30 {
			t.Errorf("%d attempts in four hours, want about 26", n)
		}
	})
}

// As the checkpoints have the histograms of every VPA, nothing starts without them.
func TestUnread_checkpointsForbidden_nothingIsWrittenUntilLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, web := newUnreadBench(t)
		b.passes(b.started(), 24*time.Hour, true)
		b.api.Reply(listCheckpoints, http.StatusForbidden, rightMissing)
		go func() {
			time.Sleep(time.Hour)
			b.api.ForgetReply(listCheckpoints)
		}()
		began, before := time.Now(), len(b.api.Requests())
		r := b.started()
		if waited := time.Since(began); waited < time.Hour || waited > time.Hour+time.Minute || len(b.api.Requests()) != before {
			t.Errorf("loaded after %v, writes %v", waited, b.api.Requests()[before:])
		}
		if !strings.Contains(b.log.String(), "verticalpodautoscalercheckpoints.autoscaling.k8s.io") {
			t.Errorf("the log does not name the right: %s", b.log.String()[max(0, b.log.Len()-500):])
		}
		b.passes(r, 2*time.Minute, false)
		if n := r.usageStore.Series(web, "app").Seen(cluster.CPU).Count; n < 24*60 {
			t.Errorf("%d samples, want those of a day", n)
		}
	})
}
