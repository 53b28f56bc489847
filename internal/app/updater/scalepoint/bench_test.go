// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package scalepoint

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rollout"
)

// bench contains a Deployment of three pods with a VPA and an HPA, and is the source and the writer of an Adjuster.
type bench struct {
	now        time.Time
	hpa        *cluster.HorizontalAutoscaler
	silent     []*cluster.HorizontalAutoscaler // of others; writes to them have no answer
	autoscaler *cluster.Autoscaler             // nil: none
	pods       []*cluster.Pod
	resize     int64 // the CPU request that a pass gives the pods; 0: none
	frozen     bool
	scope      process.Common
	err        error
	writes     int
	log        bytes.Buffer
}

// newBench returns pods that request 500m of CPU, and an HPA with a target of 80 %.
func newBench() *bench {
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	y := &bench{now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)}
	y.hpa = &cluster.HorizontalAutoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "hpa"}, UID: "h", Target: top,
		Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 80}},
	}
	r := cluster.Amounts(460, 250<<20)
	y.autoscaler = &cluster.Autoscaler{
		Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: top, Mode: cluster.InPlaceOrRecreate, PreserveScalePoint: true,
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: r, Target: r, Upper: r}}},
	}
	for i := range 3 {
		y.pods = append(y.pods, &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("web-", i)}, UID: fmt.Sprint(i), Top: top, Phase: cluster.Running, Ready: true,
			Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(500, 250<<20)}},
		})
	}
	return y
}

func (y *bench) adjuster() *Adjuster {
	return New(y, y, &y.scope, false, process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&y.log, nil)))
}

// pass prepares a pass, and returns its guard and its decisions.
func (y *bench) pass(s *Adjuster) (*Guard, []decision.Decision) {
	var all []*cluster.Autoscaler
	if y.autoscaler != nil {
		all = append(all, y.autoscaler.WithHorizontal([]*cluster.HorizontalAutoscaler{y.hpa}))
	}
	var decisions []decision.Decision
	for _, p := range y.pods {
		if y.resize > 0 && len(all) > 0 {
			with := []policy.Fitted{{Container: "app", Requests: cluster.Amounts(y.resize, 250<<20)}}
			decisions = append(decisions, decision.Decision{Pod: p, Autoscaler: all[0], Do: decision.Resize, With: with})
		}
	}
	snapshot := cluster.NewSnapshot(slices.Clone(y.pods), all)
	guard := s.Prepare(context.Background(), y.now, snapshot, cluster.Gather(all, y.pods, false), decisions)
	y.now = y.now.Add(time.Minute)
	return guard, decisions
}

func (y *bench) percent() int32 { return y.hpa.Utilization[0].Percent }

func (y *bench) logged(message string) int { return strings.Count(y.log.String(), message) }

func (y *bench) Horizontals() []*cluster.HorizontalAutoscaler {
	return append(slices.Clone(y.silent), y.hpa)
}

func (y *bench) Rules(a *cluster.Autoscaler) rollout.Rules {
	return rollout.Rules{Autoscaler: a, Cluster: cluster.Freeze{On: y.frozen}}
}

func (y *bench) Record(ctx context.Context, h *cluster.HorizontalAutoscaler, points []cluster.ScalePoint) error {
	return y.SetTargets(ctx, h, nil, points)
}

func (y *bench) SetTargets(ctx context.Context, h *cluster.HorizontalAutoscaler, percent map[int]int32, points []cluster.ScalePoint) error {
	if h.Namespace != "shop" {
		<-ctx.Done()
		return ctx.Err()
	}
	y.writes++
	if y.err != nil {
		return y.err
	}
	next := *y.hpa
	next.Points = points
	next.Utilization = slices.Clone(next.Utilization)
	if to, ok := percent[0]; ok {
		next.Utilization[0].Percent = to
	}
	y.hpa = &next
	return nil
}
