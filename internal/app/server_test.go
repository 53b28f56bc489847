// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestHealthFailsWhenALoopStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth(5 * time.Minute)
		srv := observation(prometheus.NewRegistry(), false, h)
		ask := func() (int, string) {
			w := httptest.NewRecorder()
			srv.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/health-check", nil))
			return w.Code, w.Body.String()
		}
		time.Sleep(time.Hour)
		if code, _ := ask(); code != 200 {
			t.Errorf("a loop that has not begun: code %d", code)
		}
		h.Active(time.Now())
		time.Sleep(4 * time.Minute)
		if code, _ := ask(); code != 200 {
			t.Errorf("after 4 minutes: code %d", code)
		}
		time.Sleep(2 * time.Minute)
		if code, text := ask(); code != 500 || !strings.Contains(text, "Error: last activity more than 6m0s ago") {
			t.Errorf("after 6 minutes: code %d, %q", code, text)
		}
		h.Disarm()
		if code, _ := ask(); code != 200 {
			t.Errorf("a loop that gave up its lease: code %d", code)
		}
	})
}

func TestSizeClasses(t *testing.T) {
	for pods, want := range map[int]string{-1: "0", 0: "0", 1: "0", 2: "1", 3: "1", 4: "2", 1023: "9", 1024: "10", 1 << 20: "20", 1 << 25: "20"} {
		if got := sizeLog2(pods); got != want { // W-25: the last class is within the table
			t.Errorf("%d pods: class %s, want %s", pods, got, want)
		}
	}
}

// Dashboards and alerts meet the series that upstream has, those too that are zero.
func TestFiguresThatAreZeroAreThere(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newRecommenderMetrics(reg)
	m.publishObjects(map[objectKey]int{{mode: "Off", matches: true}: 3})
	for api, want := range map[string]float64{"v1": 3, "v1beta1": 0, "v1beta2": 0} {
		if got := testutil.ToFloat64(m.objects.WithLabelValues("Off", "false", api, "true", "false")); got != want {
			t.Errorf("%s: %v objects", api, got)
		}
	}
	if n := testutil.CollectAndCount(m.objects); n != 6*8*3 {
		t.Errorf("%d classes of objects", n)
	}
	m.read(&cluster.Pod{Containers: []cluster.Container{{Reported: true}, {}, {Role: cluster.Sidecar, Reported: true}, {Role: cluster.Init}, {Role: cluster.Init}}})
	for source, want := range map[string]float64{
		"Pod.Status.ContainerStatuses": 1, "Pod.Spec.Containers": 1, "Pod.Status.InitContainerStatuses": 1, "Pod.Spec.InitContainers": 2,
	} {
		if got := testutil.ToFloat64(m.sources.WithLabelValues(source)); got != want {
			t.Errorf("%s: %v", source, got)
		}
	}
	u := newUpdaterMetrics(reg)
	resizable := newTally(u.resizable)
	resizable.add("2", "", 5)
	resizable.publish(false)
	if n := testutil.CollectAndCount(u.resizable); n != 20 {
		t.Errorf("%d classes of sizes", n)
	}
	if got := testutil.ToFloat64(u.resizable.WithLabelValues("2")); got != 5 {
		t.Errorf("%v pods", got)
	}
}
