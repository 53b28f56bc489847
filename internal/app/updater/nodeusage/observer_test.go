// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package nodeusage

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/metrics"
)

// A metricsAPI has a sample of one container of pod shop/web.
type metricsAPI struct {
	err   error
	takes time.Duration
	reads int
}

func (m *metricsAPI) Read(ctx context.Context) (metrics.Reading, error) {
	m.reads++
	select {
	case <-ctx.Done():
		return metrics.Reading{}, ctx.Err()
	case <-time.After(m.takes):
	}
	return metrics.Reading{Samples: []usage.Sample{
		{Pod: cluster.Key{Namespace: "shop", Name: "web"}, Container: "app", At: time.Now(), Memory: 15 << 30, Has: cluster.Both},
		{Pod: cluster.Key{Namespace: "shop", Name: "web"}, Container: "young", At: time.Now(), Has: cluster.Set(cluster.CPU)},
	}}, m.err
}

// oneNode is a pod that uses 15 of the 16 GiB of its node.
func oneNode(peaks bool) *plan.World {
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web"}, Node: "n", Phase: cluster.Running, Created: time.Now().Add(-time.Hour)}
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, MemoryLimits: cluster.LimitRule{Peaks: peaks}}
	return &plan.World{
		Nodes: []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(8000, 16<<30), Ready: true}}, Pods: []*cluster.Pod{p},
		Governed: []cluster.Governed{{Autoscaler: a, Pods: []*cluster.Pod{p}}},
	}
}

func observe(t *testing.T, m *metricsAPI, d time.Duration, each func(*Observer, *guard.Book)) (log string) {
	var text strings.Builder
	o, book := New(m, nil, Wait, process.NewHealth(time.Hour), slog.New(slog.NewTextHandler(&text, nil))), &guard.Book{}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Second) {
		o.Watch(t.Context(), time.Now(), oneNode(true), book, true)
		each(o, book)
	}
	synctest.Wait()
	return text.String()
}

func TestObserver_nodeIsFull_guardIsAlarmedAndUsageIsReadEvery15Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &metricsAPI{}
		var alarms []guard.Alarm
		log := observe(t, m, 5*time.Minute, func(o *Observer, b *guard.Book) {
			alarms = b.Alarms
			if due := time.Until(o.NextRead()); due < 0 || due > interval {
				t.Errorf("usage is read in %v", due)
			}
		})
		if len(alarms) != 1 || alarms[0].Used != 15<<30 {
			t.Errorf("alarms %+v, want node n with 15 GiB in use", alarms)
		}
		if log != "" || m.reads < 15 || m.reads > 21 {
			t.Errorf("%d readings in 5 minutes, log %q", m.reads, log)
		}
	})
}

func TestObserver_usageIsNotRead_isLoggedOnceAndTriedEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &metricsAPI{err: errors.New("503")}
		end := time.Now().Add(5 * time.Minute)
		log := observe(t, m, 10*time.Minute, func(_ *Observer, b *guard.Book) {
			if time.Now().After(end) {
				m.err = nil
			} else if len(b.Alarms) > 0 {
				t.Errorf("alarms without usage: %+v", b.Alarms)
			}
		})
		if strings.Count(log, "Cannot read the memory usage") != 1 || strings.Count(log, "after earlier failures") != 1 {
			t.Errorf("log %q", log)
		}
		if m.reads > 30 {
			t.Errorf("%d readings, of which 5 minutes fail", m.reads)
		}
	})
}

func TestObserver_noNodeNeedsIt_nothingIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &metricsAPI{}
		o, book := New(m, nil, Wait, process.NewHealth(time.Hour), slog.New(slog.DiscardHandler)), &guard.Book{}
		for name, c := range map[string]struct {
			peaks, permitted bool
			unguarded        int
		}{"forbidden": {true, false, 1}, "no limits that follow the highest usage": {false, true, 0}} {
			book.Alarms = []guard.Alarm{{Node: "n"}}
			if n := o.Watch(t.Context(), time.Now(), oneNode(c.peaks), book, c.permitted); n != c.unguarded {
				t.Errorf("%s: %d nodes are without the guard, want %d", name, n, c.unguarded)
			}
			if m.reads > 0 || len(book.Alarms) > 0 || !o.NextRead().IsZero() {
				t.Errorf("%s: %d readings, alarms %+v, next at %v", name, m.reads, book.Alarms, o.NextRead())
			}
		}
		var none *Observer
		if none.Watch(t.Context(), time.Now(), oneNode(true), book, true) > 0 || !none.NextRead().IsZero() {
			t.Error("no observer reads")
		}
	})
}
