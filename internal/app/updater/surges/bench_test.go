// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package surges

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
)

// bench contains a Deployment with its controllers, and is the source and the writer of a Surger.
type bench struct {
	t           *testing.T
	now         time.Time
	deployment  cluster.Deployment
	version     int
	pods        []*cluster.Pod
	created     int
	autoscalers []*cluster.Autoscaler
	late        bool // new pods do not become ready
	scaled      bool // an HPA scales the Deployment
	hidden      bool // the watch shows no annotation
	frozen      bool
	unsynced    bool // HPAs are not known yet
	readErr     error
	writeErr    error
	costErr     error
	reads       int
	writes      int
	metrics     *prometheus.CounterVec
	log         bytes.Buffer
}

// newBench returns a Deployment with three ready pods, which a VPA sizes.
func newBench(t *testing.T) *bench {
	y := &bench{t: t, now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), metrics: NewCounter(prometheus.NewRegistry())}
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	y.deployment = cluster.Deployment{Workload: top, UID: "d", Replicas: 3, Observed: true}
	y.autoscalers = []*cluster.Autoscaler{{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: top}}
	for range 3 {
		y.create()
	}
	return y
}

func (y *bench) create() {
	top := y.deployment.Workload
	rs := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}
	y.pods = append(y.pods, &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("web-", y.created)}, UID: strconv.Itoa(y.created), Top: top, Controller: rs, Node: "n",
		Phase: cluster.Running, Ready: !y.late, Created: y.now, ReadySince: y.now,
	})
	y.created++
}

func (y *bench) surger() *Surger {
	return New(y, y, y, &process.Common{}, y.metrics, process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&y.log, nil)))
}

// begun returns a Surger that has begun the surge of the first pod.
func (y *bench) begun() *Surger {
	y.t.Helper()
	s := y.surger()
	y.pass(s)
	if err := s.Start(y.t.Context(), y.now, y.pods[0]); err != nil {
		y.t.Fatal(err)
	}
	return s
}

// pass runs the steps of a pass, and then what the ReplicaSet controller does within 30 seconds.
func (y *bench) pass(s *Surger) []Failure {
	_, failed := s.Advance(y.t.Context(), y.now)
	y.now = y.now.Add(30 * time.Second)
	for len(y.pods) > int(y.deployment.Replicas) {
		slices.SortStableFunc(y.pods, func(a, b *cluster.Pod) int { return int(a.DeletionCost>>1 - b.DeletionCost>>1) })
		y.pods = y.pods[1:]
	}
	for len(y.pods) < int(y.deployment.Replicas) {
		y.create()
	}
	return failed
}

func (y *bench) passes(s *Surger, n int) (failed []Failure) {
	for range n {
		failed = append(failed, y.pass(s)...)
	}
	return failed
}

func (y *bench) logged(message string) int { return strings.Count(y.log.String(), message) }

// check checks the state of the Deployment, the pods, and the number of surges with a result.
func (y *bench) check(replicas int32, recorded bool, result string, count float64) {
	y.t.Helper()
	if y.deployment.Replicas != replicas || y.deployment.Recorded != recorded {
		y.t.Errorf("%d replicas, record %+v; want %d, recorded %t", y.deployment.Replicas, y.deployment.Surge, replicas, recorded)
	}
	if got := testutil.ToFloat64(y.metrics.WithLabelValues(result)); got != count {
		y.t.Errorf("%v surges are %s, want %v", got, result, count)
	}
	for _, p := range y.pods {
		if !recorded && p.DeletionCost != 0 {
			y.t.Errorf("pod %s keeps the deletion cost %d", p.Name, p.DeletionCost)
		}
	}
}

func (y *bench) Snapshot() *cluster.Snapshot {
	return cluster.NewSnapshot(slices.Clone(y.pods), slices.Clone(y.autoscalers))
}

func (y *bench) Surging() []cluster.Workload {
	if y.deployment.Recorded && !y.hidden {
		return []cluster.Workload{y.deployment.Workload}
	}
	return nil
}

func (y *bench) Scaled() (map[cluster.Workload]bool, bool) {
	return map[cluster.Workload]bool{y.deployment.Workload: y.scaled}, !y.unsynced
}

func (y *bench) Rules(a *cluster.Autoscaler) rollout.Rules {
	return rollout.Rules{Autoscaler: a, Cluster: cluster.Freeze{On: y.frozen}}
}

func (y *bench) Read(context.Context, cluster.Workload) (cluster.Deployment, error) {
	y.reads++
	d := y.deployment
	d.Version = strconv.Itoa(y.version)
	d.Pods, d.Updated = int32(len(y.pods)), d.Updated+int32(len(y.pods))
	return d, y.readErr
}

func (y *bench) Write(_ context.Context, d *cluster.Deployment, replicas int32, record *cluster.Surge) error {
	y.writes++
	if y.writeErr != nil {
		return y.writeErr
	}
	if d.Version != strconv.Itoa(y.version) {
		return kube.ErrInvalid
	}
	y.version++
	y.deployment.Replicas, y.deployment.Recorded, y.deployment.Surge, y.deployment.Foreign = replicas, record != nil, nil, false
	if record != nil {
		kept := *record
		y.deployment.Surge = &kept
	}
	return nil
}

func (y *bench) Annotate(_ context.Context, p *cluster.Pod, set map[string]string, _ ...string) error {
	y.writes++
	if y.costErr != nil {
		return y.costErr
	}
	cost, _ := strconv.Atoi(set[annotationDeletionCost])
	for i, q := range y.pods {
		if q.UID == p.UID {
			marked := *q
			marked.DeletionCost = int32(cost)
			y.pods[i] = &marked
		}
	}
	return nil
}
