// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/prom/survey"
	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/kubetest"
)

// podsOfPage are a live pod of a Deployment, one that is gone, and one of another Deployment.
var podsOfPage = [...]string{"web-7d4b9c6f5d-x2k9b", "web-6c8f4d7b9c-zzzzz", "web-api-7d4b9c6f5d-x2k9c"}

// The charts on the page of a workload without a VPA have the hourly peaks that podfit recommend reads from the same Prometheus.
func TestPage_workloadWithoutVPA_chartsHaveThePeaksOfRecommend(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end tests are not short")
	}
	url := start(t)
	end := time.Now().UTC().Truncate(24 * time.Hour)
	from := end.Add(-48 * time.Hour)
	writeUsage(t, url, from, end)
	want := peaksOfRecommend(t, url, from, end)

	charts := 0
	for _, c := range servedCharts(t, url) {
		of, scale := cluster.CPU, 1.0
		if strings.HasPrefix(c.Title, "Memory") {
			of, scale = cluster.Memory, 1<<30
		}
		if c.Kind != "peaks" || !strings.HasPrefix(c.Note, "Source: Prometheus, ") {
			t.Errorf("%s is a chart of %s with the note %q", c.Title, c.Kind, c.Note)
		}
		charts++
		hours := 0
		for i, at := range c.Data.Times {
			if c.Data.Peaks[i] == nil || at < from.Unix() || at >= end.Unix() {
				continue
			}
			hours++
			if expected := want[of][at] / scale; math.Abs(*c.Data.Peaks[i]-expected) > 0.0015 { // recommend keeps whole millicores
				t.Errorf("%s, %s: got %v, recommend reads %v", c.Title, time.Unix(at, 0).UTC(), *c.Data.Peaks[i], expected)
			}
		}
		if hours < 40 || hours != len(want[of]) {
			t.Errorf("%s has %d hours, recommend reads %d", c.Title, hours, len(want[of]))
		}
	}
	if charts != 2 {
		t.Errorf("%d charts, want those of CPU and memory", charts)
	}
}

// writeUsage stores the usage of two days, which differs from hour to hour and from pod to pod. The second pod has only the first day.
func writeUsage(t *testing.T, url string, from, end time.Time) {
	t.Helper()
	some := func(i int) []series {
		label := func(metric string) map[string]string {
			return map[string]string{"__name__": metric, "namespace": "page", "pod": podsOfPage[i], "container": "app"}
		}
		size := float64(i*i + 1)
		return []series{
			{label("container_cpu_usage_seconds_total"), func(d time.Duration) float64 { return size * (0.1*d.Seconds() + 1e-6*d.Seconds()*d.Seconds()) }},
			{label("container_memory_working_set_bytes"), func(d time.Duration) float64 { return size * 1e8 * float64(1+int(d/time.Hour)%7) }},
		}
	}
	for at := from.Add(-5 * time.Minute); at.Before(end); at = at.Add(time.Hour) {
		all := append(some(0), some(2)...)
		if at.Before(from.Add(24 * time.Hour)) {
			all = append(all, some(1)...)
		}
		send(t, url, all, from, at, cluster.Earliest(at.Add(time.Hour), end.Add(interval))) // Prometheus accepts no samples of the future
	}
}

// peaksOfRecommend returns the peaks of the Deployment, by the start of the hour, in cores and bytes.
func peaksOfRecommend(t *testing.T, url string, from, end time.Time) map[cluster.Resource]map[int64]float64 {
	t.Helper()
	s, err := survey.New(survey.Config{Address: url})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.Plan(t.Context(), []string{"page"}, from, end)
	if err != nil {
		t.Fatal(err)
	}
	out := map[cluster.Resource]map[int64]float64{cluster.CPU: {}, cluster.Memory: {}}
	for part, err := range s.Read(t.Context(), plan) {
		if err != nil || len(part.Gaps) > 0 {
			t.Fatalf("error %v, gaps %+v", err, part.Gaps)
		}
		for h := range part.Hours() {
			if of := cluster.OwnerByName(h.Key()); of.Name != "web" {
				continue
			}
			at := h.End.Add(-time.Hour).Unix()
			if h.Has.Has(cluster.CPU) {
				out[cluster.CPU][at] = max(out[cluster.CPU][at], h.CPU)
			}
			if h.Has.Has(cluster.Memory) {
				out[cluster.Memory][at] = max(out[cluster.Memory][at], h.Memory)
			}
		}
	}
	return out
}

// A servedChart is a chart as the page has it.
type servedChart struct {
	Title, Kind, Note string
	Data              struct {
		Times []int64
		Peaks []*float64
	}
}

// servedCharts returns the charts on the page of the Deployment in "podfit web".
func servedCharts(t *testing.T, prometheus string) []servedChart {
	t.Helper()
	api := kubetest.NewFakeAPI(t)
	api.Reply("GET /apis/metrics.k8s.io/v1beta1/pods", http.StatusOK, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[]}`)
	api.Apply("/apis/apps/v1/deployments", `{"metadata":{"namespace":"page","name":"web"},"spec":{"replicas":1}}`)
	api.Apply(kubetest.ReplicaSetsPath, `{"metadata":{"namespace":"page","name":"web-7d4b9c6f5d","ownerReferences":[
		{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"u","controller":true}]},"spec":{"replicas":1}}`)
	api.ApplyPod("page", podsOfPage[0], "ReplicaSet", "web-7d4b9c6f5d")
	root, err := bed.Root()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := bed.Build(t.Context(), root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := bed.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	address := fmt.Sprintf("127.0.0.1:%d", port)
	process, err := bed.Start(bed.Command{
		Name: "podfit", Path: binary, Dir: dir, Log: filepath.Join(dir, "podfit.log"),
		Args: []string{"web", "--kubeconfig=" + kubetest.Kubeconfig(t, api.URL()), "--web-address=" + address, "--prometheus=" + prometheus},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("podfit\n%s", process.Tail(40))
		}
		process.Kill()
	})
	var page struct {
		Charts            []servedChart
		PrometheusProblem string
	}
	ctx, cancel := bed.WithPatience(t.Context(), time.Minute)
	defer cancel()
	err = bed.Until(ctx, 200*time.Millisecond, func(context.Context) error {
		a, err := http.Get("http://" + address + "/workloads/page/Deployment/web?format=json")
		if err != nil {
			return err
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s, error %w", a.Status, text, err)
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return err
		}
		if page.PrometheusProblem != "" || len(page.Charts) == 0 {
			return fmt.Errorf("%d charts, problem: %s", len(page.Charts), page.PrometheusProblem)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return page.Charts
}
