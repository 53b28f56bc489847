// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kubelet"
)

var report = cluster.Workload{Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "report"}

// runOf returns the pod of a run that began at a time.
func runOf(w cluster.Workload, name string, began time.Time) *cluster.Pod {
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Top: w, Node: "n1", Phase: cluster.Running, Started: began, Containers: []cluster.Container{{Name: "app"}}}
	p.Containers[0].Delay = p.DelayOf(began.Unix())
	return p
}

// A kubeletBench has kubelets that serve what usage says, all at one address.
type kubeletBench struct {
	*bench
	*kubelets
	status   atomic.Int32
	answer   func(authorization string) (status int) // nil: the status
	requests atomic.Int32
	usage    string
	log      bytes.Buffer
}

func newKubeletBench(t *testing.T) *kubeletBench {
	b := &kubeletBench{bench: newBench(t)}
	b.status.Store(http.StatusOK)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.requests.Add(1)
		status := int(b.status.Load())
		if b.answer != nil {
			status = b.answer(r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, b.usage)
	}))
	t.Cleanup(server.Close)
	client, err := kubelet.New(&rest.Config{}, true)
	if err != nil {
		t.Fatal(err)
	}
	b.nodes = []cluster.Node{{Name: "n1", Kubelet: server.Listener.Addr().String()}}
	b.kubelets = &kubelets{
		client: client, world: b.bench, age: 3 * time.Minute, init: true, health: process.NewHealth(time.Hour), log: slog.New(slog.NewTextHandler(&b.log, nil)), retry: map[string]time.Time{},
	}
	return b
}

// measure sets the usage of a container that began at a time and was read after 8 seconds.
func (b *kubeletBench) measure(pod, container string, began time.Time) {
	labels := fmt.Sprintf(`{container=%q,namespace="shop",pod=%q}`, container, pod)
	at := began.Add(8 * time.Second).UnixMilli()
	b.usage = fmt.Sprintf("container_cpu_usage_seconds_total%s 2 %d\ncontainer_memory_working_set_bytes%s 3e+08 %d\ncontainer_start_time_seconds%s %d\n", labels, at, labels, at, labels, began.Unix())
}

// Each run ends, and its pod is deleted, before the next pass. There are no samples.
func TestRecommender_runsEndBetweenPasses_kubeletsMeasureThem(t *testing.T) {
	for _, on := range []bool{true, false} {
		b := newKubeletBench(t)
		b.autoscale("report", report)
		d := b.dependencies()
		if on {
			d.kubelets = b.kubelets
		}
		r := newRecommender(b.config, d)
		now := time.Now().Truncate(time.Second)
		r.pass(t.Context(), now)
		for i := range 4 {
			pod := runOf(report, fmt.Sprint("report-", i), now.Add(10*time.Second))
			b.pods = []*cluster.Pod{pod}
			b.measure(pod.Name, "app", pod.Started)
			b.round(t.Context(), now.Add(20*time.Second))
			b.pods = nil
			now = now.Add(time.Minute)
			r.pass(t.Context(), now)
		}
		for range 15 { // nobody saw that they ended
			now = now.Add(time.Minute)
			r.pass(t.Context(), now)
		}
		a := b.autoscalers[0].AdviceFor("app")
		if (a != nil) != on {
			t.Fatalf("kubelets %t: advice %+v", on, a)
		}
		if on && (a.Target.Memory != 345e6 || a.Target.CPU < 285 || a.Target.CPU > 290) {
			t.Errorf("target %v, want 115 %% of 250m and 300 MB", a.Target)
		}
	}
}

func TestKubelets_pods_onlyRunsThatHaveJustBegunAreRead(t *testing.T) {
	now := time.Now()
	other := cluster.Workload{Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "other"}
	web := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	ended := runOf(report, "x", now.Add(-5*time.Second))
	ended.Containers[0].Exit = &cluster.Exit{Now: true, Started: now.Add(-5 * time.Second), Finished: now}
	init := runOf(web, "x", now.Add(-5*time.Second))
	init.Containers[0].Role = cluster.Init
	elsewhere := runOf(report, "x", now.Add(-5*time.Second))
	elsewhere.Node = "n2"
	for name, c := range map[string]struct {
		pod  *cluster.Pod
		read bool
	}{
		"run":                     {runOf(report, "x", now.Add(-5*time.Second)), true},
		"long run":                {runOf(report, "x", now.Add(-5*time.Minute)), false},
		"has ended":               {ended, false},
		"no VPA":                  {runOf(other, "x", now.Add(-5*time.Second)), false},
		"Deployment":              {runOf(web, "x", now.Add(-5*time.Second)), false},
		"init container":          {init, true},
		"node with no known port": {elsewhere, false},
	} {
		b := newKubeletBench(t)
		b.nodes = append(b.nodes, cluster.Node{Name: "n2"})
		b.swap(map[cluster.Workload]bool{report: true, web: true})
		b.pods = []*cluster.Pod{c.pod}
		b.measure("x", "app", c.pod.Started)
		b.round(t.Context(), now)
		if got := b.swap(nil); len(got) == 1 != c.read || b.requests.Load() == 1 != c.read {
			t.Errorf("%s: readings %+v, %d requests", name, got, b.requests.Load())
		}
	}
}

// A kubelet that refuses is left for a minute, and that is logged once.
func TestKubelets_kubeletRefuses_isLeftForAMinuteAndLoggedOnce(t *testing.T) {
	b := newKubeletBench(t)
	now := time.Now()
	b.swap(map[cluster.Workload]bool{report: true})
	b.pods = []*cluster.Pod{runOf(report, "report-1", now)}
	b.age = time.Hour
	b.status.Store(http.StatusForbidden)
	for i := range 24 { // two minutes
		b.round(t.Context(), now.Add(time.Duration(i)*kubeletInterval))
	}
	if n := b.requests.Load(); n != 2 {
		t.Errorf("%d requests in two minutes", n)
	}
	runs := b.pods
	b.pods = nil // it is still the same failure after some time without runs
	b.round(t.Context(), now.Add(2*time.Minute))
	b.pods = runs
	b.round(t.Context(), now.Add(2*time.Minute))
	b.status.Store(http.StatusOK)
	b.round(t.Context(), now.Add(4*time.Minute))
	b.retry["gone"] = now
	b.round(t.Context(), now.Add(4*time.Minute))
	said := b.log.String()
	if strings.Count(said, "Cannot read usage from the kubelet") != 1 || !strings.Contains(said, "403 Forbidden") || !strings.Contains(said, "kubectl apply -f deploy/rights/kubelet-metrics/") || b.said {
		t.Errorf("%t, log:\n%s", b.said, said)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.round(ctx, now.Add(150*time.Second))
	if len(b.retry) > 0 {
		t.Error("the end of the process counts as a failure")
	}
}

// A token that the kubelet does not accept, a missing right, and a certificate that is not trusted: the node is left for a minute, and the warning has
// the remedy.
func TestKubelets_kubeletIsNotAccessible_warningHasTheRemedy(t *testing.T) {
	for name, c := range map[string]struct {
		token     string
		secure    bool
		requests  int32 // in two minutes
		errorText string
		remedy    string
	}{
		"wrong token":                         {token: "wrong", requests: 2, errorText: "401 Unauthorized", remedy: "after 401, set authentication.webhook.enabled=true"},
		"no right":                            {token: "powerless", requests: 2, errorText: "403 Forbidden", remedy: "kubectl apply -f deploy/rights/kubelet-metrics/kubelet-metrics.yaml"},
		"untrusted certificate":               {token: "right", secure: true, errorText: "certificate signed by unknown authority", remedy: "--kubelet-insecure-tls"},
		"right token, --kubelet-insecure-tls": {token: "right", requests: 24},
	} {
		t.Run(name, func(t *testing.T) {
			b := newKubeletBench(t)
			client, err := kubelet.New(&rest.Config{BearerToken: c.token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, !c.secure)
			if err != nil {
				t.Fatal(err)
			}
			b.client, b.age = client, time.Hour
			b.answer = func(token string) int {
				return map[string]int{"Bearer right": http.StatusOK, "Bearer powerless": http.StatusForbidden, "Bearer wrong": http.StatusUnauthorized}[token]
			}
			now := time.Now()
			b.swap(map[cluster.Workload]bool{report: true})
			b.pods = []*cluster.Pod{runOf(report, "report-1", now)}
			for i := range 24 {
				b.round(t.Context(), now.Add(time.Duration(i)*kubeletInterval))
				if left := b.retry["n1"]; c.errorText != "" && !left.Equal(now.Add(time.Duration(i/12+1)*kubeletBackoff)) {
					t.Fatalf("in round %d the node is left until %v", i, left)
				}
			}
			if n := b.requests.Load(); n != c.requests {
				t.Errorf("%d requests in two minutes, want %d", n, c.requests)
			}
			if said := b.log.String(); strings.Count(said, "Cannot read usage from the kubelet") != min(len(c.errorText), 1) || !strings.Contains(said, c.errorText) || !strings.Contains(said, c.remedy) {
				t.Errorf("log:\n%s", said)
			}
		})
	}
}

func TestKubelets_manyNodes_takeTurns(t *testing.T) {
	b := newKubeletBench(t)
	now := time.Now()
	address := b.nodes[0].Kubelet
	b.nodes = nil
	b.swap(map[cluster.Workload]bool{report: true})
	for i := range 70 {
		p := runOf(report, fmt.Sprint("report-", i), now)
		p.Node = fmt.Sprint("n", i)
		b.pods = append(b.pods, p)
		b.nodes = append(b.nodes, cluster.Node{Name: p.Node, Kubelet: address})
	}
	var all []kubeletReading
	for range 2 {
		before := b.requests.Load()
		b.usage = ""
		for _, p := range b.pods { // each kubelet also reports the pods of other nodes
			b.usage += fmt.Sprintf("container_memory_working_set_bytes{container=\"app\",namespace=\"shop\",pod=%q} 3e+08 %d\n", p.Name, now.UnixMilli())
		}
		b.round(t.Context(), now)
		if n := b.requests.Load() - before; n != maxKubelets {
			t.Errorf("%d requests in a round", n)
		}
		all = append(all, b.swap(b.governed)...)
	}
	of := map[cluster.Key]int{}
	for _, r := range all {
		of[r.Pod]++
	}
	if len(of) != 70 || len(all) != 2*maxKubelets {
		t.Errorf("%d readings of %d pods", len(all), len(of))
	}
	b.readings = make([]kubeletReading, maxKubeletReadings-1)
	b.round(t.Context(), now)
	if len(b.readings) != maxKubeletReadings {
		t.Errorf("%d readings are kept", len(b.readings))
	}
}

func TestNewKubelets_flag_isOffByDefaultAndWithoutRuns(t *testing.T) {
	clients, err := kube.ClientsFor(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"--kubelet-usage"}, {"--kubelet-usage", "--kubelet-insecure-tls"}, {"--kubelet-usage", "--size-by-run=false"}} {
		c := Defaults()
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		c.Flags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		var d dependencies
		work, err := newKubelets(&c, clients, nil, &d)
		if on := len(args) > 0 && args[len(args)-1] != "--size-by-run=false"; err != nil || (work != nil) != on || (d.kubelets != nil) != on {
			t.Errorf("%q: %t, error %v", args, work != nil, err)
		}
	}
}
